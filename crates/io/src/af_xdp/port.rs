//! An open interface: the state that all sockets of its queues share. There is one for each interface in the
//! process; the last user closes it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::{Duration, Instant};

use millrace_core::Lock;

use super::device::{Device, Restore};
use super::program::{self, Selection};
use super::socket::{Socket, Wish, poll_busily};
use super::sys;
use crate::method::XdpHook;

/// An open interface.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) device: Device,
    /// The network namespace of the interface.
    namespace: (u64, u64),
    /// The driver's name.
    pub(super) driver: String,
    /// Whether it is a card, or something that represents one.
    pub(super) is_hardware: bool,
    /// The maximum packet length, with the Ethernet header.
    max_length: AtomicUsize,
    /// The kernel no longer knows the interface: opening it again needs another port.
    is_abandoned: AtomicBool,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    sockets: Vec<Weak<Socket>>,
    attachment: Weak<Attachment>,
    /// Changed settings of the interface, to be restored in reverse order.
    changed: Vec<Restore>,
}

/// The program that takes packets from the kernel. It is detached when this is dropped.
#[derive(Debug)]
pub(super) struct Attachment {
    link: OwnedFd,
    map: OwnedFd,
    /// Whether it runs in the driver.
    pub(super) in_driver: bool,
    /// Whether it accepts packets of several buffers.
    fragments: bool,
    selection: Lock<Selection>,
}

/// The open ports of the process. The lock is held while something is opened.
#[derive(Debug, Default)]
pub(super) struct Registry(Vec<Weak<Port>>);

static REGISTRY: Lock<Registry> = Lock::new(Registry(Vec::new()));

/// Queues that a map of sockets has room for.
const QUEUES: u32 = 1024;

impl Registry {
    pub(super) fn lock() -> MutexGuard<'static, Self> {
        REGISTRY.lock()
    }

    /// The port of an interface.
    pub(super) fn port(&mut self, name: &str) -> io::Result<Arc<Port>> {
        let device = Device::new(name)?;
        let namespace = namespace()?;
        self.0.retain(|port| port.strong_count() > 0);
        let known = self.0.iter().filter_map(Weak::upgrade);
        let mut known = known.filter(|port| {
            let is_same = port.device.index == device.index && port.namespace == namespace;
            is_same && !port.is_abandoned.load(Ordering::Relaxed)
        });
        if let Some(port) = known.next() {
            return Ok(port);
        }
        let (driver, is_hardware) = device.driver();
        let port = Arc::new(Port {
            namespace,
            driver,
            is_hardware,
            max_length: AtomicUsize::new(device.max_length().unwrap_or(usize::MAX)),
            is_abandoned: AtomicBool::new(false),
            state: Lock::default(),
            device,
        });
        self.0.push(Arc::downgrade(&port));
        Ok(port)
    }
}

/// The network namespace of this thread.
fn namespace() -> io::Result<(u64, u64)> {
    let file = std::fs::metadata("/proc/thread-self/ns/net")?;
    Ok((file.st_dev(), file.st_ino()))
}

/// Takes back transmitted packets from all sockets that are not in use at this moment.
#[cold]
pub(super) fn reap_everywhere() {
    // Who opens a port needs no packets from here.
    let Some(registry) = REGISTRY.try_lock() else { return };
    let ports: Vec<Arc<Port>> = registry.0.iter().filter_map(Weak::upgrade).collect();
    drop(registry);
    for port in ports {
        let Some(state) = port.state.try_lock() else { continue };
        let sockets: Vec<Arc<Socket>> = state.sockets.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        sockets.iter().for_each(|socket| socket.try_reap());
    }
}

impl Port {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Whether nothing uses it yet.
    pub(super) fn is_idle(&self) -> bool {
        self.state().sockets.iter().all(|socket| socket.strong_count() == 0)
    }

    /// Whether no queue receives, and no queue from this number on transmits.
    pub(super) fn is_free_from(&self, queue: usize) -> bool {
        let state = self.state();
        let mut open = state.sockets.iter().filter_map(Weak::upgrade);
        open.all(|socket| *socket.receivers.lock() == 0 && (socket.queue as usize) < queue)
    }

    /// The maximum packet length, with the Ethernet header, when it was last requested.
    #[inline]
    pub(super) fn max_length(&self) -> usize {
        self.max_length.load(Ordering::Relaxed)
    }

    /// Requests the maximum packet length again.
    pub(super) fn refresh(&self) {
        if let Some(length) = self.device.max_length() {
            self.max_length.store(length, Ordering::Relaxed);
        }
    }

    /// Whether the interface that was opened still exists, by whatever name.
    pub(super) fn is_there(&self) -> bool {
        self.device.name().is_ok()
    }

    /// Marks the port as unusable, even if there is an interface with its number again: sockets and programs
    /// are not bound to that.
    pub(super) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
    }

    /// Whether packets that the kernel has not finished may arrive: from this machine, or a neighbour on it.
    pub(super) fn may_be_unfinished(&self) -> bool {
        !self.is_hardware || ["virtio_net", "vmxnet3", "hv_netvsc", "vif"].contains(&&*self.driver)
    }

    /// Restores this setting when the port is closed.
    pub(super) fn remember(&self, change: Restore) {
        self.state().changed.push(change);
    }

    /// The socket of a queue, with the messages for a new one.
    pub(super) fn socket(
        self: &Arc<Self>,
        wish: &Wish,
        own_device: bool,
    ) -> io::Result<Arc<Socket>> {
        let mut state = self.state();
        state.sockets.retain(|socket| socket.strong_count() > 0);
        let mut known = state.sockets.iter().filter_map(Weak::upgrade);
        if let Some(socket) = known.find(|socket| socket.queue == wish.queue) {
            if wish.zero_copy.is_some_and(|wanted| wanted != socket.mode.zero_copy) {
                return Err(io::Error::other(
                    "it is already open with another setting of zero \
                                             copy",
                ));
            }
            if let Some(micros) = wish.busy_poll {
                poll_busily(socket.fd(), micros)?;
            }
            return Ok(socket);
        }
        let socket = Socket::open(self, wish, own_device)?;
        state.sockets.push(Arc::downgrade(&socket));
        Ok(socket)
    }

    /// The program of this interface; attaches it if there is none.
    pub(super) fn attach(
        &self,
        hook: XdpHook,
        selection: &Selection,
    ) -> Result<(Arc<Attachment>, Option<String>), AttachError> {
        let mut state = self.state();
        if let Some(attachment) = state.attachment.upgrade() {
            let as_wanted = match hook {
                XdpHook::Best => true,
                XdpHook::Driver => attachment.in_driver,
                XdpHook::Generic => !attachment.in_driver,
            };
            if !as_wanted {
                return Err(AttachError::Elsewhere);
            }
            attachment.change(selection)?;
            return Ok((attachment, None));
        }
        let map = sys::socket_map(QUEUES).map_err(AttachError::Load)?;
        let program = program::assemble(&map, selection).ok_or(AttachError::TooManyRules)?;
        let hooks: &[bool] = match hook {
            XdpHook::Best => &[true, false],
            XdpHook::Driver => &[true],
            XdpHook::Generic => &[false],
        };
        let mut refusal = None;
        for &in_driver in hooks {
            for fragments in [true, false] {
                let loaded = match sys::load_program(&program, fragments) {
                    Ok(loaded) => loaded,
                    // Kernels before 5.18 know no packets of several buffers.
                    Err(_) if fragments => continue,
                    Err(error) => return Err(AttachError::Load(error)),
                };
                match sys::while_busy(|| sys::link_program(&loaded, self.device.index, in_driver)) {
                    Ok(link) => {
                        let selection = Lock::new(selection.clone());
                        let attachment =
                            Arc::new(Attachment { link, map, in_driver, fragments, selection });
                        state.attachment = Arc::downgrade(&attachment);
                        return Ok((attachment, refusal.map(|error: io::Error| error.to_string())));
                    }
                    Err(error) if is_final(&error) => return Err(AttachError::Link(error)),
                    Err(error) => refusal.get_or_insert(error),
                };
            }
        }
        Err(AttachError::Link(refusal.unwrap_or_else(|| io::ErrorKind::Unsupported.into())))
    }
}

/// Whether another way to attach would meet the same error.
fn is_final(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::EACCES | libc::EBUSY | libc::EEXIST | libc::ENODEV)
    )
}

/// Why the program is not attached.
#[derive(Debug)]
pub(super) enum AttachError {
    TooManyRules,
    /// It runs in the other mode for another user.
    Elsewhere,
    Load(io::Error),
    Link(io::Error),
}

impl Port {
    /// A program in the driver that leaves all packets to the kernel until a queue receives: without one,
    /// drivers of cards have no zero copy for transmitting either.
    pub(super) fn attach_to_transmit(&self) -> Option<Arc<Attachment>> {
        if let Some(attachment) = self.state().attachment.upgrade() {
            return attachment.in_driver.then_some(attachment);
        }
        let attached = self.attach(XdpHook::Driver, &Selection::default());
        attached.ok().map(|(attachment, _)| attachment)
    }
}

impl Attachment {
    /// Sends the packets of a queue to its socket, or leaves them to the kernel again.
    pub(super) fn direct(&self, queue: u32, socket: Option<&Socket>) -> io::Result<()> {
        sys::set_in_map(&self.map, queue, socket.map(Socket::fd))
    }

    /// Changes the selection of packets.
    fn change(&self, selection: &Selection) -> Result<(), AttachError> {
        let mut current = self.selection.lock();
        if *current == *selection {
            return Ok(());
        }
        let program = program::assemble(&self.map, selection).ok_or(AttachError::TooManyRules)?;
        let loaded = sys::load_program(&program, self.fragments).map_err(AttachError::Load)?;
        sys::replace_program(&self.link, &loaded).map_err(AttachError::Link)?;
        *current = selection.clone();
        Ok(())
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        /// Channels cannot be removed while the kernel is still closing their sockets.
        const PATIENCE: Duration = Duration::from_secs(2);
        let end = Instant::now() + PATIENCE;
        while let Some(change) = self.state().changed.pop() {
            while self.device.restore(&change).is_err() && self.is_there() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
