//! Lets `sqlite3 flyte.db` look at the file while it is in use.
//!
//! The engine keeps SQLite's file format but not its locks. Without more, two things go wrong when SQLite itself opens
//! the file. It takes itself for the only user, so that its last connection merges the write-ahead log and deletes it,
//! and whatever the manager acknowledges afterwards goes to a file without a name. And it keeps an index of the log in
//! `flyte.db-shm` that nobody brings up to date, so that an open shell goes on seeing old rows.
//!
//! Against the first, a read lock on the bytes that SQLite must lock for itself alone before it may delete the log
//! (<https://www.sqlite.org/walformat.html#file_lifecycles>). Against the second, the header of that index is cleared
//! after each commit: SQLite takes an index without a valid header for one that was left by a crash, and reads the log
//! again (<https://www.sqlite.org/walformat.html#recovery>).

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// SQLite's `SHARED_FIRST` and `SHARED_SIZE`.
const SHARED_BYTES: (libc::off_t, libc::off_t) = (0x4000_0002, 510);

/// Both copies of the index's header (`WalIndexHdr`).
const INDEX_HEADER: [u8; 96] = [0; 96];

/// Holds the lock as long as it lives.
pub(crate) struct Visitors {
    _locked: File,
    index: PathBuf,
}

impl Visitors {
    /// Takes the lock, and one that keeps other managers away. The file is created when it is missing.
    ///
    /// # Errors
    /// A sentence, when the file cannot be opened, or is another manager's, or SQLite has it to itself at the moment.
    pub(crate) fn admit(path: &str) -> Result<Self, String> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|error| error.to_string())?;
        // The engine lets several processes write; two managers would run every action twice.
        file.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => {
                "another flyte-manager uses it; stop that one or set database.sqlite.file to another file"
                    .to_string()
            }
            std::fs::TryLockError::Error(error) => format!("it cannot be locked: {error}"),
        })?;
        #[allow(clippy::cast_possible_truncation, reason = "the constants fit their own types")]
        let lock = libc::flock {
            l_type: libc::F_RDLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: SHARED_BYTES.0,
            l_len: SHARED_BYTES.1,
            l_pid: 0,
        };
        // An open file description's lock outlives every other descriptor of the file in this process.
        #[cfg(target_os = "linux")]
        let set = FcntlArg::F_OFD_SETLK(&lock);
        #[cfg(not(target_os = "linux"))]
        let set = FcntlArg::F_SETLK(&lock);
        fcntl(&file, set).map_err(|error| format!("another program has it to itself: {error}"))?;
        Ok(Self { _locked: file, index: format!("{path}-shm").into() })
    }

    /// Makes open shells read the log anew. Nothing happens when SQLite has not opened the file.
    pub(crate) fn refresh(&self) {
        // The file is opened anew each time, since SQLite deletes and makes it as it likes.
        if let Ok(index) = File::options().write(true).open(&self.index)
            && let Err(error) = index.write_all_at(&INDEX_HEADER, 0)
        {
            tracing::debug!(%error, index = %self.index.display(), "open SQLite shells may see old rows");
        }
    }
}
