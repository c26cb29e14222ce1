//! NVIDIA's compiler as a library, out of a folder.

#![allow(unsafe_code, reason = "calls into a C library")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::Library;

/// What a call failed with.
pub(crate) type Error = String;

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

pub(crate) struct Compiler {
    library: Library,
}

/// What became of a source.
pub(crate) struct Compiled {
    pub(crate) log: String,
    pub(crate) ptx: String,
}

impl Compiler {
    /// Loads the library, of whatever version, from somewhere in a folder.
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        let path = find(folder).ok_or_else(|| format!("no libnvrtc in {}", folder.display()))?;
        // SAFETY: the library does nothing when it is loaded, and its functions have had these types since CUDA 11.
        let library = unsafe { Library::new(path) }.map_err(|error| error.to_string())?;
        Ok(Self { library })
    }

    /// `12.0`, for example.
    pub(crate) fn version(&self) -> Result<String, Error> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the type is that of NVIDIA's manual; both integers are written.
        let code = unsafe { self.function::<Version>(c"nvrtcVersion")?(&mut major, &mut minor) };
        check(code)?;
        Ok(format!("{major}.{minor}"))
    }

    /// Compiles CUDA C++ for an architecture; a warning of the last step is in the log.
    pub(crate) fn compile(
        &self,
        name: &str,
        source: &str,
        architecture: &str,
    ) -> Result<Compiled, Error> {
        let text = |text: &str| CString::new(text).map_err(|error| error.to_string());
        let (source, file) = (text(source)?, text(&format!("{name}.cu"))?);
        let options = [
            text(&format!("--gpu-architecture={architecture}"))?,
            text("--std=c++17")?,
            text("--ptxas-options=-v")?,
            text("--ptxas-options=--warn-on-spills")?,
        ];
        // Only for machine code is there a last step.
        let last = if architecture.starts_with("compute") { 2 } else { 4 };
        let options: Vec<_> = options[..last].iter().map(|option| option.as_ptr()).collect();
        let mut program = ptr::null_mut();
        // SAFETY: the types are those of NVIDIA's manual; strings end with zero and live through the calls, there are no
        // headers, as many options as we say; the program is destroyed once, below.
        unsafe {
            let create = self.function::<Create>(c"nvrtcCreateProgram")?;
            check(create(
                &mut program,
                source.as_ptr(),
                file.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            ))?;
            let compile = self.function::<Compile>(c"nvrtcCompileProgram")?;
            let code = compile(program, options.len() as c_int, options.as_ptr());
            let log = self.text(program, c"nvrtcGetProgramLogSize", c"nvrtcGetProgramLog");
            let ptx = self.text(program, c"nvrtcGetPTXSize", c"nvrtcGetPTX");
            check(self.function::<Destroy>(c"nvrtcDestroyProgram")?(&mut program))?;
            let log = log?;
            check(code).map_err(|error| format!("{name} for {architecture}: {error}\n{log}"))?;
            Ok(Compiled { log, ptx: ptx? })
        }
    }

    /// # Safety
    /// The program exists, and `size` says what `get` writes.
    unsafe fn text(&self, program: Program, size: &CStr, get: &CStr) -> Result<String, Error> {
        let mut bytes = 0;
        // SAFETY: the caller's word; there is as much room as is written.
        unsafe {
            check(self.function::<Size>(size)?(program, &mut bytes))?;
            let mut text = vec![0_u8; bytes.max(1)];
            check(self.function::<Get>(get)?(program, text.as_mut_ptr().cast()))?;
            let text = CStr::from_bytes_until_nul(&text).map_err(|error| error.to_string())?;
            Ok(text.to_string_lossy().into_owned())
        }
    }

    /// # Safety
    /// The function has this type.
    unsafe fn function<T: Copy>(&self, name: &CStr) -> Result<T, Error> {
        // SAFETY: the caller's word.
        let symbol = unsafe { self.library.get::<T>(name.to_bytes_with_nul()) };
        symbol.map(|symbol| *symbol).map_err(|error| error.to_string())
    }
}

fn check(code: c_int) -> Result<(), Error> {
    if code == 0 { Ok(()) } else { Err(format!("NVRTC says error {code}")) }
}

/// `libnvrtc.so.VERSION`, in the folder or below it. Beside it lies what it loads by itself.
fn find(folder: &Path) -> Option<std::path::PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("libnvrtc.so") {
            return Some(path);
        }
        if let Some(found) = path.is_dir().then(|| find(&path)).flatten() {
            return Some(found);
        }
    }
    None
}
