//! The library Hyperscan (or Vectorscan, which is the same to its callers), if the machine has it.
//!
//! It is opened at run time; nothing here links against it. Of its many modes this uses one: whole texts, and
//! patterns that are plain strings (`hs_compile_lit_multi`, since version 5.2). The interface is that of its manual,
//! <https://intel.github.io/hyperscan/dev-reference/api_files.html>.
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

/// A string to search for. It is told by its place in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Literal<'a> {
    pub(crate) bytes: &'a [u8],
    /// `A` to `Z` are the same as `a` to `z`.
    pub(crate) nocase: bool,
    /// It is enough to tell it once in a text.
    pub(crate) once: bool,
}

/// Strings compiled. It is only read, and threads may share it.
#[derive(Debug)]
pub(crate) struct Database {
    library: &'static Functions,
    database: NonNull<c_void>,
    /// Different for each database there is.
    number: u64,
}

/// What a thread needs to scan.
#[derive(Debug, Default)]
pub(crate) struct ScanSpace {
    space: Option<(&'static Functions, NonNull<c_void>)>,
    /// The database that it fits.
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
            fn of(library: Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of the library's manual for these names, in its version 5. The
                // pointers are used no longer than `_library` lives, beside them.
                unsafe {
                    Ok(Self {
                        $($name: *library.get::<$type>(concat!(stringify!($name), "\0").as_bytes())?,)+
                        _library: library,
                    })
                }
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

/// The library, opened when it is first asked for.
fn library() -> Result<&'static Functions, String> {
    static LIBRARY: OnceLock<Result<Functions, String>> = OnceLock::new();
    let opened = LIBRARY.get_or_init(|| {
        // SAFETY: loading it runs what it does at its start, which is to choose functions by the processor.
        let library = unsafe { Library::new(NAME) };
        let functions = library.and_then(Functions::of).map_err(|error| error.to_string())?;
        // SAFETY: it takes nothing.
        match unsafe { (functions.hs_valid_platform)() } {
            SUCCESS => Ok(functions),
            _ => Err(format!("{NAME} does not run on this processor")),
        }
    });
    opened.as_ref().map_err(Clone::clone)
}

/// What the library says of its version; `Err` says why there is none.
pub(crate) fn version() -> Result<String, String> {
    let version = library()?.hs_version;
    // SAFETY: it takes nothing and gives a string that stays.
    Ok(unsafe { CStr::from_ptr(version()) }.to_string_lossy().into_owned())
}

// SAFETY: nothing of it belongs to a thread, and the library's manual has threads share it.
unsafe impl Send for Database {}
// SAFETY: as above; every function that gets it takes it as `const`.
unsafe impl Sync for Database {}
// SAFETY: nothing of it belongs to a thread; one at a time uses it, through `&mut`.
unsafe impl Send for ScanSpace {}

impl Database {
    /// Compiles strings, at least one, none empty.
    pub(crate) fn compile(literals: &[Literal<'_>]) -> Result<Self, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let library = library()?;
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
        // SAFETY: four arrays of `count` elements, each string as long as is said beside it; no platform is this
        // machine's. What is given back is set to a database or to an error.
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

    /// Bytes that it takes.
    pub(crate) fn memory(&self) -> usize {
        let mut bytes = 0;
        // SAFETY: it is a database, and the number has a place.
        let code =
            unsafe { (self.library.hs_database_size)(self.database.as_ptr(), &raw mut bytes) };
        if code == SUCCESS { bytes } else { 0 }
    }

    /// Tells each string that ends in a text, by its place in the list, and where it ends (the position behind
    /// it), until `found` gives false. Ends come in order. `Err` when the library did not search the text.
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

/// Hands a match on. A panic in `F` ends the program: it cannot pass through C.
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
    /// The space, made to fit a database.
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
                // After a failure nothing is sure of the old one but that it must not be used.
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
    /// What is wrong by an error of the compiler, which is freed.
    fn message(&self, code: c_int, error: *mut CompileError) -> String {
        // SAFETY: it is none or one that the compiler made.
        let Some(error) = (unsafe { error.as_mut() }) else {
            return format!("hs_compile_lit_multi failed with {code}");
        };
        // SAFETY: every error has a message.
        let message = unsafe { CStr::from_ptr(error.message) }.to_string_lossy().into_owned();
        let place = error.expression;
        // SAFETY: it is used no more.
        unsafe { (self.hs_free_compile_error)(error) };
        match place {
            0.. => format!("hyperscan: pattern {}: {message}", place + 1),
            _ => format!("hyperscan: {message}"),
        }
    }
}
