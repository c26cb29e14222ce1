//! The library Hyperscan (or Vectorscan, which is the same to its callers), if the machine has it.
//!
//! It is opened at run time; nothing here links against it. Of its many modes this uses one: whole texts, and
//! patterns that are plain strings (`hs_compile_lit_multi`, since version 5.2). The interface is that of its manual,
//! <https://intel.github.io/hyperscan/dev-reference/api_files.html>.
//!
//! What keeps it sound, beside the reasons at each block:
//! * **Version.** The name that it is opened by ends in the major version of its interface, and what it says of itself must
//!   agree. A function that is missing, as `hs_compile_lit_multi` is before 5.2, is an error, and so is one that the
//!   library resolves to nothing.
//! * **Processor.** `hs_valid_platform` is asked before anything else.
//! * **Lifetime.** The library is opened once and never closed, so that its functions stay.
//! * **Threads.** A database is only read. Space is used through `&mut`, and made to fit before each scan another
//!   database's; the library is never called from within its callback with the same space, for the callback cannot
//!   reach it.
//! * **Callback.** A panic ends the program instead of passing through C.
//! * **Limits.** Strings without bytes, of which the library would read the first, never get there. Texts beyond 4 GiB,
//!   and failures to allocate, are errors; the caller then searches without the library.
#![allow(unsafe_code, reason = "calls of a C library; each says why it is sound")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use libloading::Library;

/// The names that it is tried by: what Debian's `libhyperscan5` and `libvectorscan5` bring.
const NAME: &str = "libhs.so.5";

const SUCCESS: c_int = 0;
const TERMINATED: c_int = -3;
const MODE_BLOCK: c_uint = 1;
const CASELESS: c_uint = 1;
const SINGLE_MATCH: c_uint = 8;

/// A string to search for. It is identified by its index in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Literal<'a> {
    pub(crate) bytes: &'a [u8],
    /// True if `A` to `Z` match `a` to `z`.
    pub(crate) nocase: bool,
    /// True if one match per text is enough.
    pub(crate) once: bool,
}

/// Compiled strings. They are only read, and threads can share them.
#[derive(Debug)]
pub(crate) struct Database {
    library: &'static Functions,
    database: NonNull<c_void>,
    /// A unique number.
    number: u64,
}

/// The memory that a thread needs to scan.
#[derive(Debug, Default)]
pub(crate) struct ScanSpace {
    space: Option<(&'static Functions, NonNull<c_void>)>,
    /// The number of the database that it fits.
    number: Option<u64>,
}

type OnMatch = extern "C" fn(c_uint, c_ulonglong, c_ulonglong, c_uint, *mut c_void) -> c_int;

macro_rules! functions {
    ($($name:ident: $type:ty,)+) => {
        /// The functions of the library, which is never closed.
        #[derive(Debug)]
        struct Functions {
            $($name: $type,)+
            _library: Library,
        }

        impl Functions {
            fn of(library: Library) -> Result<Self, String> {
                $(
                    let name = stringify!($name);
                    // SAFETY: the type is that of the library's manual for this name, in its version 5, and none where
                    // it is resolved to nothing.
                    let function = unsafe { library.get::<Option<$type>>(name) };
                    let function = *function.map_err(|error| error.to_string())?;
                    let $name = function.ok_or_else(|| format!("{NAME} has no {name}"))?;
                )+
                // The functions are not used longer than the library exists, because both are in one structure.
                Ok(Self { $($name,)+ _library: library })
            }
        }
    };
}

functions! {
    hs_valid_platform: unsafe extern "C" fn() -> c_int,
    hs_version: unsafe extern "C" fn() -> *const c_char,
    hs_compile_lit_multi: unsafe extern "C" fn(
        *const *const c_char,
        *const c_uint,
        *const c_uint,
        *const usize,
        c_uint,
        c_uint,
        *const c_void,
        *mut *mut c_void,
        *mut *mut CompileError,
    ) -> c_int,
    hs_free_compile_error: unsafe extern "C" fn(*mut CompileError) -> c_int,
    hs_database_size: unsafe extern "C" fn(*const c_void, *mut usize) -> c_int,
    hs_free_database: unsafe extern "C" fn(*mut c_void) -> c_int,
    hs_alloc_scratch: unsafe extern "C" fn(*const c_void, *mut *mut c_void) -> c_int,
    hs_free_scratch: unsafe extern "C" fn(*mut c_void) -> c_int,
    hs_scan: unsafe extern "C" fn(
        *const c_void,
        *const c_char,
        c_uint,
        c_uint,
        *mut c_void,
        OnMatch,
        *mut c_void,
    ) -> c_int,
}

/// `hs_compile_error_t`.
#[repr(C)]
struct CompileError {
    message: *const c_char,
    expression: c_int,
}

/// Its major version; `NAME` ends in it.
const VERSION: &str = "5.";

/// The library, which is opened when it is first needed.
fn library() -> Result<&'static Functions, String> {
    static LIBRARY: OnceLock<Result<Functions, String>> = OnceLock::new();
    let opened = LIBRARY.get_or_init(|| {
        // SAFETY: loading it runs what it does at its start, which is to choose functions by the processor.
        let library = unsafe { Library::new(NAME) };
        let functions = Functions::of(library.map_err(|error| error.to_string())?)?;
        // SAFETY: it takes nothing.
        if unsafe { (functions.hs_valid_platform)() } != SUCCESS {
            return Err(format!("{NAME} does not run on this processor"));
        }
        match functions.version() {
            version if version.starts_with(VERSION) => Ok(functions),
            version => Err(format!("{NAME} says that its version is ‘{version}’")),
        }
    });
    opened.as_ref().map_err(Clone::clone)
}

/// The version of the library; `Err` says why there is none.
pub(crate) fn version() -> Result<String, String> {
    Ok(library()?.version())
}

// SAFETY: nothing of it belongs to a thread, and the library's manual has threads share it.
unsafe impl Send for Database {}
// SAFETY: as above; every function that gets it takes it as `const`.
unsafe impl Sync for Database {}
// SAFETY: nothing of it belongs to a thread; one at a time uses it, through `&mut`.
unsafe impl Send for ScanSpace {}

impl Database {
    /// Compiles strings: at least one, none empty.
    pub(crate) fn compile(literals: &[Literal<'_>]) -> Result<Self, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let library = library()?;
        if literals.iter().any(|literal| literal.bytes.is_empty()) {
            return Err("a string to search for is empty".into());
        }
        let count = c_uint::try_from(literals.len()).map_err(|error| error.to_string())?;
        let strings: Vec<*const c_char> =
            literals.iter().map(|literal| literal.bytes.as_ptr().cast()).collect();
        let lengths: Vec<usize> = literals.iter().map(|literal| literal.bytes.len()).collect();
        let flags = |literal: &Literal<'_>| {
            (if literal.nocase { CASELESS } else { 0 })
                | (if literal.once { SINGLE_MATCH } else { 0 })
        };
        let flags: Vec<c_uint> = literals.iter().map(flags).collect();
        let ids: Vec<c_uint> = (0..count).collect();
        let mut database = ptr::null_mut();
        let mut error = ptr::null_mut();
        // SAFETY: four arrays of `count` elements, each string as long as is said beside it and at least a byte; no
        // platform is this machine's. What is given back is set to a database or to an error.
        let code = unsafe {
            (library.hs_compile_lit_multi)(
                strings.as_ptr(),
                flags.as_ptr(),
                ids.as_ptr(),
                lengths.as_ptr(),
                count,
                MODE_BLOCK,
                ptr::null(),
                &raw mut database,
                &raw mut error,
            )
        };
        match NonNull::new(database) {
            Some(database) if code == SUCCESS => {
                Ok(Self { library, database, number: NUMBER.fetch_add(1, Relaxed) })
            }
            _ => Err(library.message(code, error)),
        }
    }

    /// The size in bytes.
    pub(crate) fn memory(&self) -> usize {
        let mut bytes = 0;
        // SAFETY: it is a database, and the number has a place.
        let code =
            unsafe { (self.library.hs_database_size)(self.database.as_ptr(), &raw mut bytes) };
        if code == SUCCESS { bytes } else { 0 }
    }

    /// Calls `found` for each string that ends in a text, with its index in the list and its end (the position after
    /// it), until `found` returns false. Ends come in ascending order. `Err` if the library did not search the text.
    pub(crate) fn scan<F: FnMut(u32, usize) -> bool>(
        &self,
        text: &[u8],
        space: &mut ScanSpace,
        mut found: F,
    ) -> Result<(), String> {
        let space = space.fit(self)?;
        let length = c_uint::try_from(text.len()).map_err(|error| error.to_string())?;
        // SAFETY: database and space fit each other, and the space is used by nobody else, for `fit` borrows it
        // alone. The text has this length. `on_match::<F>` gets the address of an `F` that lives until the end of
        // the call and that nobody else uses meanwhile.
        let code = unsafe {
            (self.library.hs_scan)(
                self.database.as_ptr(),
                text.as_ptr().cast(),
                length,
                0,
                space.as_ptr(),
                on_match::<F>,
                (&raw mut found).cast(),
            )
        };
        match code {
            SUCCESS | TERMINATED => Ok(()),
            code => Err(format!("hs_scan failed with {code}")),
        }
    }
}

/// Passes a match to the closure. A panic in `F` ends the program, because it cannot pass through C.
extern "C" fn on_match<F: FnMut(u32, usize) -> bool>(
    id: c_uint,
    _from: c_ulonglong,
    to: c_ulonglong,
    _flags: c_uint,
    found: *mut c_void,
) -> c_int {
    // SAFETY: `scan` passed the address of an `F`, which nobody else uses until the scan is over.
    let found = unsafe { &mut *found.cast::<F>() };
    c_int::from(!found(id, to as usize))
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: it came from the compiler and is freed once.
        unsafe { (self.library.hs_free_database)(self.database.as_ptr()) };
    }
}

impl ScanSpace {
    /// The space, adapted to a database.
    fn fit(&mut self, database: &Database) -> Result<NonNull<c_void>, String> {
        if let Some((_, space)) = self.space
            && self.number == Some(database.number)
        {
            return Ok(space);
        }
        let mut space = self.space.map_or(ptr::null_mut(), |(_, space)| space.as_ptr());
        let library = database.library;
        // SAFETY: it is none, or one that nobody uses, which is freed if another one takes its place.
        let code =
            unsafe { (library.hs_alloc_scratch)(database.database.as_ptr(), &raw mut space) };
        match NonNull::new(space) {
            Some(space) if code == SUCCESS => {
                self.space = Some((library, space));
                self.number = Some(database.number);
                Ok(space)
            }
            _ => {
                // After a failure, nothing is known about the old space except that it must not be used.
                self.space = None;
                Err(format!("hs_alloc_scratch failed with {code}"))
            }
        }
    }
}

impl Drop for ScanSpace {
    fn drop(&mut self) {
        if let Some((library, space)) = self.space {
            // SAFETY: it came from the library and is freed once.
            unsafe { (library.hs_free_scratch)(space.as_ptr()) };
        }
    }
}

impl Functions {
    /// The version that the library reports.
    fn version(&self) -> String {
        // SAFETY: it takes nothing.
        let version = unsafe { (self.hs_version)() };
        // SAFETY: it is none, or a string that stays.
        unsafe { text(version) }
    }

    /// The text of a compiler error, which is freed.
    fn message(&self, code: c_int, error: *mut CompileError) -> String {
        // SAFETY: it is none, or one that the compiler made. Two threads that run out of memory get the same one, which
        // is constant: nobody may have it alone.
        let Some(&CompileError { message, expression }) = (unsafe { error.as_ref() }) else {
            return format!("hs_compile_lit_multi failed with {code}");
        };
        // SAFETY: it is none, or the error's, which lives.
        let message = unsafe { text(message) };
        // SAFETY: it is used no more. The library knows those that are constant.
        unsafe { (self.hs_free_compile_error)(error) };
        match expression {
            0.. => format!("hyperscan: pattern {}: {message}", expression + 1),
            _ => format!("hyperscan: {message}"),
        }
    }
}

/// A string of the library's; empty if there is none.
///
/// # Safety
/// It is none, or one that ends in a zero and lives as long as this takes.
unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: the caller says so.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles, if the library is installed.
    fn compile(test: &str, strings: &[&[u8]]) -> Option<Result<Database, String>> {
        if let Err(error) = library() {
            millrace_testkit::announce(test, &error);
            return None;
        }
        let literals: Vec<Literal<'_>> =
            strings.iter().map(|bytes| Literal { bytes, nocase: false, once: false }).collect();
        Some(Database::compile(&literals))
    }

    fn ends(database: &Database, text: &[u8], space: &mut ScanSpace) -> Vec<(u32, usize)> {
        let mut ends = Vec::new();
        let scanned = database.scan(text, space, |string, end| {
            ends.push((string, end));
            true
        });
        assert_eq!(scanned, Ok(()));
        ends
    }

    #[test]
    fn empty_contents_are_rejected() {
        for strings in [&[][..], &[&b"a"[..], b""]] {
            let Some(compiled) = compile("empty_contents_are_rejected", strings) else { return };
            assert!(compiled.is_err());
        }
    }

    #[test]
    fn zero_bytes_can_be_searched_for() {
        let strings: [&[u8]; 3] = [b"\0", b"\0a", b"a\0"];
        let Some(database) = compile("zero_bytes_can_be_searched_for", &strings) else { return };
        let mut found = ends(&database.unwrap(), b"a\0a", &mut ScanSpace::default());
        found.sort_unstable();
        assert_eq!(found, [(0, 2), (1, 3), (2, 2)]);
    }

    /// Each thread has a space. The databases are shared, and the spaces are used with all of them.
    #[test]
    fn threads_share_databases() {
        let name = "threads_share_databases";
        let long: Vec<Vec<u8>> = (0..500).map(|n| format!("pattern {n};").into_bytes()).collect();
        let long: Vec<&[u8]> = long.iter().map(Vec::as_slice).collect();
        let (Some(one), Some(many)) = (compile(name, &[b"7;"]), compile(name, &long)) else {
            return;
        };
        let (one, many) = (one.unwrap(), many.unwrap());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut space = ScanSpace::default();
                    for _ in 0..100 {
                        assert_eq!(ends(&one, b"pattern 17;", &mut space), [(0, 11)]);
                        assert_eq!(ends(&many, b"pattern 17;", &mut space), [(17, 11)]);
                    }
                });
            }
        });
    }
}
