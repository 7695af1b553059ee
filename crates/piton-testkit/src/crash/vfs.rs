//! SQLite's own file layer with a tap in it: every write, sync, cut and delete below a [`Machine`]'s folder is told to
//! that machine first, which may say that the power is off.
//!
//! It is installed as the default for the whole process, so the product opens its databases as it always does. Files of
//! no machine pass through untouched.
#![allow(unsafe_code, reason = "SQLite's file layer is a C interface")]

use super::machine::{Deed, Machine};
use rusqlite::ffi;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError};

/// Our file; SQLite's own lies behind it in the same memory.
#[repr(C)]
struct Tapped {
    base: ffi::sqlite3_file,
    /// Null for a file of no machine.
    tap: *mut Tap,
}

struct Tap {
    machine: Arc<Machine>,
    path: PathBuf,
}

static MACHINES: Mutex<Vec<Arc<Machine>>> = Mutex::new(Vec::new());

/// From here on the machine hears of every file below its folder.
pub(super) fn plug_in(machine: &Arc<Machine>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(install);
    machines().push(Arc::clone(machine));
}

/// No longer.
pub(super) fn unplug(machine: &Arc<Machine>) {
    machines().retain(|other| !Arc::ptr_eq(other, machine));
}

fn machines() -> std::sync::MutexGuard<'static, Vec<Arc<Machine>>> {
    MACHINES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn machine_of(path: &Path) -> Option<Arc<Machine>> {
    machines().iter().find(|machine| path.starts_with(machine.root())).cloned()
}

fn install() {
    // SAFETY: the default file layer exists for as long as the process, and a copy of its table of functions is one.
    // `szOsFile` leaves room for both files. The table and the name are never freed.
    unsafe {
        let real = ffi::sqlite3_vfs_find(std::ptr::null());
        let mut vfs = *real;
        vfs.pNext = std::ptr::null_mut();
        vfs.zName = c"piton-crash".as_ptr();
        vfs.szOsFile += size_of::<Tapped>() as c_int;
        vfs.pAppData = real.cast();
        vfs.xOpen = Some(open);
        vfs.xDelete = Some(delete);
        ffi::sqlite3_vfs_register(Box::into_raw(Box::new(vfs)), 1);
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    // The version with shared memory, which WAL mode needs, and without memory maps.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite hands us our table, a name that lives as long as the file, and memory of the size we asked for.
    unsafe {
        let real_vfs: *mut ffi::sqlite3_vfs = (*vfs).pAppData.cast();
        (*file).pMethods = std::ptr::null();
        let Some(real_open) = (*real_vfs).xOpen else { return ffi::SQLITE_CANTOPEN };
        let code = real_open(real_vfs, name, real(file), flags, out_flags);
        if code != ffi::SQLITE_OK {
            return code;
        }
        let kept = flags & (ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL) != 0 && !name.is_null();
        let path = if kept { path_of(name) } else { PathBuf::new() };
        let tap = machine_of(&path).filter(|_| kept).map(|machine| {
            machine.opened(&path);
            Box::into_raw(Box::new(Tap { machine, path }))
        });
        (*file.cast::<Tapped>()).tap = tap.unwrap_or(std::ptr::null_mut());
        (*file).pMethods = &raw const METHODS;
        code
    }
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    // SAFETY: SQLite hands us our table and a name.
    unsafe {
        let path = path_of(name);
        let refused = machine_of(&path).map(|machine| machine.deed(&path, Deed::Delete));
        if let Some(Err(code)) = refused {
            return code;
        }
        let real_vfs: *mut ffi::sqlite3_vfs = (*vfs).pAppData.cast();
        (*real_vfs).xDelete.map_or(ffi::SQLITE_IOERR, |real_delete| real_delete(real_vfs, name, sync_folder))
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the tap was boxed by `open`, and SQLite closes a file once.
    unsafe {
        let tap = std::mem::replace(&mut (*file.cast::<Tapped>()).tap, std::ptr::null_mut());
        if !tap.is_null() {
            drop(Box::from_raw(tap));
        }
        methods(file).xClose.map_or(ffi::SQLITE_IOERR, |act| act(real(file)))
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite hands us an open file and `len` readable bytes.
    unsafe {
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), len as usize);
        match told(file, Deed::Write { at: at as usize, bytes }) {
            Ok(()) => methods(file).xWrite.map_or(ffi::SQLITE_IOERR, |act| act(real(file), from, len, at)),
            Err(code) => code,
        }
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: SQLite hands us an open file.
    unsafe {
        match told(file, Deed::Cut { len: size as usize }) {
            Ok(()) => methods(file).xTruncate.map_or(ffi::SQLITE_IOERR, |act| act(real(file), size)),
            Err(code) => code,
        }
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite hands us an open file.
    unsafe {
        match told(file, Deed::Sync) {
            // On a real disk below a tap there is nobody to be safe from: the machine keeps the books.
            Ok(()) if !(*file.cast::<Tapped>()).tap.is_null() => ffi::SQLITE_OK,
            Ok(()) => methods(file).xSync.map_or(ffi::SQLITE_IOERR, |act| act(real(file), flags)),
            Err(code) => code,
        }
    }
}

/// Passes a call on as it is.
macro_rules! pass_on {
    ($($name:ident: $method:ident($($arg:ident: $type:ty),*) -> $result:ty, or $otherwise:expr;)*) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file $(, $arg: $type)*) -> $result {
            // SAFETY: SQLite hands us an open file, and its own function gets what it would have got.
            unsafe { methods(file).$method.map_or($otherwise, |act| act(real(file) $(, $arg)*)) }
        }
    )*};
}

pass_on! {
    read: xRead(into: *mut c_void, len: c_int, at: i64) -> c_int, or ffi::SQLITE_IOERR;
    file_size: xFileSize(size: *mut i64) -> c_int, or ffi::SQLITE_IOERR;
    lock: xLock(level: c_int) -> c_int, or ffi::SQLITE_IOERR;
    unlock: xUnlock(level: c_int) -> c_int, or ffi::SQLITE_IOERR;
    check_reserved_lock: xCheckReservedLock(held: *mut c_int) -> c_int, or ffi::SQLITE_IOERR;
    file_control: xFileControl(op: c_int, arg: *mut c_void) -> c_int, or ffi::SQLITE_NOTFOUND;
    sector_size: xSectorSize() -> c_int, or 4096;
    device_characteristics: xDeviceCharacteristics() -> c_int, or 0;
    shm_map: xShmMap(page: c_int, size: c_int, extend: c_int, at: *mut *mut c_void) -> c_int, or ffi::SQLITE_IOERR;
    shm_lock: xShmLock(offset: c_int, n: c_int, flags: c_int) -> c_int, or ffi::SQLITE_IOERR;
    shm_barrier: xShmBarrier() -> (), or ();
    shm_unmap: xShmUnmap(delete: c_int) -> c_int, or ffi::SQLITE_IOERR;
}

/// Tells the file's machine, if it has one, what is about to be done.
unsafe fn told(file: *mut ffi::sqlite3_file, deed: Deed<'_>) -> Result<(), c_int> {
    // SAFETY: the tap lives from `open` to `close`.
    match unsafe { (*file.cast::<Tapped>()).tap.as_ref() } {
        Some(tap) => tap.machine.deed(&tap.path, deed),
        None => Ok(()),
    }
}

/// SQLite's own file behind ours.
unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: `szOsFile` leaves room for it there.
    unsafe { file.cast::<u8>().add(size_of::<Tapped>()).cast() }
}

unsafe fn methods(file: *mut ffi::sqlite3_file) -> &'static ffi::sqlite3_io_methods {
    // SAFETY: the file is open, and SQLite's tables of functions are static.
    unsafe { &*(*real(file)).pMethods }
}

unsafe fn path_of(name: *const c_char) -> PathBuf {
    // SAFETY: names are C strings.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}
