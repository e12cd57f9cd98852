//! A disk that forgets what was not synced when the power fails, and that fails when it is told to.

use crate::rng::Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use turso_core::io::FileSyncType;
use turso_core::io::clock::{Clock, MonotonicInstant, WallClockInstant};
use turso_core::{Buffer, Completion, CompletionError, File, IO, LimboError, OpenFlags, Result};

/// What one file holds.
#[derive(Clone, Default)]
struct Content {
    /// As reads see it.
    now: Vec<u8>,
    /// As it is after a power loss.
    durable: Vec<u8>,
    /// Writes since the last sync, in order: a power loss keeps some of them.
    pending: Vec<(u64, Vec<u8>)>,
}

struct State {
    files: BTreeMap<String, Content>,
    /// Counts power losses; handles of an earlier one do nothing any more.
    generation: u64,
    rng: Rng,
    write_errors_per_mille: u64,
    sync_errors_per_mille: u64,
    full: bool,
    lies: bool,
    /// What has happened, for the report.
    fired: BTreeMap<&'static str, u64>,
    /// Tells disks of one process apart.
    number: u64,
}

/// Counts the disks of this process.
static DISKS: AtomicU64 = AtomicU64::new(0);

/// A disk that worlds keep over restarts.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// An empty disk.
    pub fn new(rng: Rng) -> Self {
        Self(Arc::new(Mutex::new(State {
            files: BTreeMap::new(),
            generation: 0,
            rng,
            write_errors_per_mille: 0,
            sync_errors_per_mille: 0,
            full: false,
            lies: false,
            fired: BTreeMap::new(),
            number: DISKS.fetch_add(1, Ordering::Relaxed),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often writes and syncs fail, of a thousand.
    pub fn set_errors(&self, write_per_mille: u64, sync_per_mille: u64) {
        let mut state = self.state();
        state.write_errors_per_mille = write_per_mille;
        state.sync_errors_per_mille = sync_per_mille;
    }

    /// Whether there is no room for new bytes.
    pub fn set_full(&self, full: bool) {
        self.state().full = full;
    }

    /// Makes the disk say that it has synced what it has not.
    pub fn set_lies(&self, lies: bool) {
        self.state().lies = lies;
    }

    /// The power fails: what was not synced is lost, or kept in part and out of order.
    pub fn power_loss(&self) {
        let mut state = self.state();
        state.generation += 1;
        *state.fired.entry("F9 power loss").or_default() += 1;
        let mut rng = state.rng.clone();
        for content in state.files.values_mut() {
            let mut image = content.durable.clone();
            for (pos, bytes) in content.pending.drain(..) {
                if rng.chance(400) {
                    // A torn write keeps its beginning, in sectors of 512 bytes.
                    let keep = if rng.chance(300) {
                        rng.below(bytes.len() as u64 + 1) as usize / 512 * 512
                    } else {
                        bytes.len()
                    };
                    put(&mut image, pos, &bytes[..keep]);
                }
            }
            content.durable.clone_from(&image);
            content.now = image;
        }
        state.rng = rng;
    }

    /// The process dies: everything that was written is kept, and its handles do nothing any more.
    pub fn process_crash(&self) {
        let mut state = self.state();
        state.generation += 1;
        *state.fired.entry("F10 process crash").or_default() += 1;
    }

    /// The disk as the next process sees it.
    pub fn mount(&self) -> Arc<dyn IO> {
        Arc::new(Mount { disk: self.clone(), generation: self.state().generation })
    }

    /// The path of the database for the process that mounts the disk next. It differs each time, because the engine keeps
    /// open databases by path for the whole process; the disk has one file behind all of them.
    pub fn path(&self) -> String {
        let state = self.state();
        format!("/disk-{}/{}/flyte.db", state.number, state.generation)
    }

    /// How often each fault has happened.
    pub fn fired(&self) -> BTreeMap<&'static str, u64> {
        self.state().fired.clone()
    }
}

fn put(image: &mut Vec<u8>, pos: u64, bytes: &[u8]) {
    let (pos, end) = (pos as usize, pos as usize + bytes.len());
    if image.len() < end {
        image.resize(end, 0);
    }
    image[pos..end].copy_from_slice(bytes);
}

fn error(kind: std::io::ErrorKind, what: &'static str) -> CompletionError {
    CompletionError::IOError(kind, what)
}

struct Mount {
    disk: Disk,
    generation: u64,
}

impl Clock for Mount {
    fn current_time_monotonic(&self) -> MonotonicInstant {
        MonotonicInstant::now()
    }

    fn current_time_wall_clock(&self) -> WallClockInstant {
        let ms = crate::entropy::wall_ms();
        WallClockInstant { secs: ms.div_euclid(1_000), micros: (ms.rem_euclid(1_000) * 1_000) as u32 }
    }
}

impl IO for Mount {
    fn open_file(&self, path: &str, flags: OpenFlags, _: bool) -> Result<Arc<dyn File>> {
        let name = path.rsplit('/').next().unwrap_or(path).to_string();
        let mut state = self.disk.state();
        if !state.files.contains_key(&name) {
            if !flags.contains(OpenFlags::Create) {
                return Err(error(std::io::ErrorKind::NotFound, "open").into());
            }
            state.files.insert(name.clone(), Content::default());
        }
        Ok(Arc::new(Handle { disk: self.disk.clone(), generation: self.generation, name }))
    }

    fn remove_file(&self, path: &str) -> Result<()> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let mut state = self.disk.state();
        if state.generation == self.generation {
            state.files.remove(name);
        }
        Ok(())
    }

    fn generate_random_number(&self) -> i64 {
        self.disk.state().rng.draw() as i64
    }

    fn fill_bytes(&self, dest: &mut [u8]) {
        self.disk.state().rng.fill(dest);
    }

    fn yield_now(&self) {}

    fn sleep(&self, _: std::time::Duration) {}

    fn file_id(&self, path: &str) -> Result<turso_core::io::FileId> {
        Ok(turso_core::io::FileId::from_path_hash(path))
    }
}

struct Handle {
    disk: Disk,
    generation: u64,
    name: String,
}

impl Handle {
    /// Writes, or fails as the disk does.
    fn write(&self, pos: u64, bytes: &[u8]) -> std::result::Result<(), CompletionError> {
        let mut state = self.disk.state();
        if state.generation != self.generation {
            return Err(error(std::io::ErrorKind::BrokenPipe, "write"));
        }
        let grows =
            state.files.get(&self.name).is_none_or(|file| file.now.len() < pos as usize + bytes.len());
        if state.full && grows {
            *state.fired.entry("F11 disk full").or_default() += 1;
            return Err(error(std::io::ErrorKind::StorageFull, "write"));
        }
        let per_mille = state.write_errors_per_mille;
        if state.rng.chance(per_mille) {
            *state.fired.entry("F11 write error").or_default() += 1;
            return Err(error(std::io::ErrorKind::Other, "write"));
        }
        let content = state.files.entry(self.name.clone()).or_default();
        put(&mut content.now, pos, bytes);
        content.pending.push((pos, bytes.to_vec()));
        Ok(())
    }
}

impl File for Handle {
    fn lock_file(&self, _: bool) -> Result<()> {
        Ok(())
    }

    fn unlock_file(&self) -> Result<()> {
        Ok(())
    }

    fn pread(&self, pos: u64, c: Completion) -> Result<Completion> {
        let read = {
            let state = self.disk.state();
            let content = state.files.get(&self.name).map(|file| file.now.as_slice()).unwrap_or_default();
            let from = content.len().min(pos as usize);
            let buffer = c.as_read().buf();
            let len = buffer.len().min(content.len() - from);
            buffer.as_mut_slice()[..len].copy_from_slice(&content[from..from + len]);
            len
        };
        c.complete(i32::try_from(read).unwrap_or(i32::MAX));
        Ok(c)
    }

    fn pwrite(&self, pos: u64, buffer: Arc<Buffer>, c: Completion) -> Result<Completion> {
        match self.write(pos, buffer.as_slice()) {
            Ok(()) => c.complete(i32::try_from(buffer.len()).unwrap_or(i32::MAX)),
            Err(failed) => c.error(failed),
        }
        Ok(c)
    }

    // The engine's own default never completes when one of the writes fails.
    fn pwritev(&self, pos: u64, buffers: Vec<Arc<Buffer>>, c: Completion) -> Result<Completion> {
        let bytes: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.as_slice().iter().copied()).collect();
        match self.write(pos, &bytes) {
            Ok(()) => c.complete(i32::try_from(bytes.len()).unwrap_or(i32::MAX)),
            Err(failed) => c.error(failed),
        }
        Ok(c)
    }

    fn sync(&self, c: Completion, _: FileSyncType) -> Result<Completion> {
        let result = {
            let mut state = self.disk.state();
            let per_mille = state.sync_errors_per_mille;
            if state.generation != self.generation {
                Err(error(std::io::ErrorKind::BrokenPipe, "sync"))
            } else if state.rng.chance(per_mille) {
                *state.fired.entry("F11 sync error").or_default() += 1;
                Err(error(std::io::ErrorKind::Other, "sync"))
            } else if state.lies {
                *state.fired.entry("lying sync").or_default() += 1;
                Ok(())
            } else {
                if let Some(content) = state.files.get_mut(&self.name) {
                    content.durable.clone_from(&content.now);
                    content.pending.clear();
                }
                Ok(())
            }
        };
        match result {
            Ok(()) => c.complete(0),
            Err(failed) => c.error(failed),
        }
        Ok(c)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.disk.state().files.get(&self.name).map_or(0, |file| file.now.len() as u64))
    }

    fn truncate(&self, len: u64, c: Completion) -> Result<Completion> {
        {
            let mut state = self.disk.state();
            if state.generation != self.generation {
                return Err(LimboError::from(error(std::io::ErrorKind::BrokenPipe, "truncate")));
            }
            if let Some(content) = state.files.get_mut(&self.name) {
                // A change of the length is kept at once, as a journalling file system does it.
                content.now.resize(len as usize, 0);
                content.durable.resize(len as usize, 0);
                content.pending.retain(|(pos, bytes)| pos + bytes.len() as u64 <= len);
            }
        }
        c.complete(0);
        Ok(c)
    }
}
