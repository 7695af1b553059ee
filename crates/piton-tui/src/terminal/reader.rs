//! The thread that reads the terminal. It can be told to leave the keys to somebody else.

use super::Message;
use super::early::{Early, Said, enter_as_key};
use crate::face::Input;
use crossterm::event::Event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// How long the terminal's answers are waited for, before keys are read in the usual way. What is typed is not held up.
const ANSWERS: Duration = Duration::from_secs(1);

/// The reader, from outside.
pub(super) struct Reader {
    input: Option<File>,
    /// The bytes that were there before the terminal's modes were set.
    typed_before: usize,
    /// A byte wakes the thread: it pauses, and says so.
    wake: UnixStream,
    wakes: Option<UnixStream>,
    paused: (Sender<()>, Receiver<()>),
    go_on: Option<Sender<()>>,
    went_on: Option<Receiver<()>>,
    is_running: bool,
}

impl Reader {
    pub(super) fn new(input: File) -> io::Result<Self> {
        let (wake, wakes) = UnixStream::pair()?;
        let (go_on, went_on) = mpsc::channel();
        // Errors are told as soon as it is read.
        let typed_before = rustix::io::ioctl_fionread(&input).unwrap_or_default();
        Ok(Self {
            input: Some(input),
            typed_before: usize::try_from(typed_before).unwrap_or_default(),
            wake,
            wakes: Some(wakes),
            paused: mpsc::channel(),
            go_on: Some(go_on),
            went_on: Some(went_on),
            is_running: false,
        })
    }

    pub(super) fn start(&mut self, messages: Sender<Message>) -> io::Result<()> {
        let (Some(input), Some(wakes), Some(went_on)) = (self.input.take(), self.wakes.take(), self.went_on.take())
        else {
            return Ok(());
        };
        let (typed_before, paused) = (self.typed_before, self.paused.0.clone());
        let thread = Thread { input, typed_before, wakes, paused, went_on, messages };
        std::thread::Builder::new().name("keys".to_owned()).spawn(move || thread.run())?;
        self.is_running = true;
        Ok(())
    }

    /// Reads no key until [`Reader::go_on`].
    pub(super) fn pause(&mut self) {
        if self.is_running && self.wake.write_all(b"p").is_ok() {
            let _ = self.paused.1.recv_timeout(Duration::from_millis(500));
        }
    }

    pub(super) fn go_on(&self) {
        if let Some(go_on) = &self.go_on {
            let _ = go_on.send(());
        }
    }
}

struct Thread {
    input: File,
    /// So many of the next bytes come from before the terminal's modes were set.
    typed_before: usize,
    wakes: UnixStream,
    paused: Sender<()>,
    went_on: Receiver<()>,
    messages: Sender<Message>,
}

impl Thread {
    fn run(mut self) {
        // Until the terminal is gone, or nobody wants its keys.
        if self.first_moments().is_ok() {
            while self.wait(None).is_ok_and(|is_readable| !is_readable || self.read().is_ok()) {}
        }
        // Without keys there is no face.
        let _ = self.messages.send(Message::Stop);
    }

    /// Reads bytes until the terminal has answered, or does not.
    fn first_moments(&mut self) -> io::Result<()> {
        let mut early = Early::default();
        let mut end = Instant::now() + ANSWERS;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // A paste is one, however long it takes.
            if left.is_zero() && early.is_in_paste() {
                end = Instant::now() + ANSWERS;
                continue;
            }
            if left.is_zero() {
                return early.finish().into_iter().try_for_each(|said| self.say(said));
            }
            if !self.wait(Some(left))? {
                continue;
            }
            let mut bytes = [0; 4096];
            let count = self.input.read(&mut bytes)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let before = self.typed_before.min(count);
            enter_as_key(&mut bytes[..before]);
            self.typed_before -= before;
            let mut is_over = false;
            for said in early.feed(&bytes[..count]) {
                is_over |= said == Said::Over;
                self.say(said)?;
            }
            if is_over && !early.is_in_paste() {
                return early.finish().into_iter().try_for_each(|said| self.say(said));
            }
        }
    }

    fn say(&self, said: Said) -> io::Result<()> {
        let message = match said {
            Said::Key(key) => Message::Input(Input::Key(key)),
            Said::Paste(text) => Message::Input(Input::Paste(text)),
            Said::Answer(answer) => Message::Answer(answer),
            Said::Over => return Ok(()),
        };
        self.send(message)
    }

    fn send(&self, message: Message) -> io::Result<()> {
        self.messages.send(message).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Waits for bytes of the terminal. Whether there are any; pauses where that is wanted.
    fn wait(&mut self, most: Option<Duration>) -> io::Result<bool> {
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        let mut fds = [PollFd::new(&self.input, PollFlags::IN), PollFd::new(&self.wakes, PollFlags::IN)];
        match poll(&mut fds, most.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(false),
            result => result?,
        };
        // A terminal that is gone is readable for ever, and has nothing.
        if fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (is_readable, is_woken) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if is_woken {
            let mut byte = [0];
            self.wakes.read_exact(&mut byte)?;
            let _ = self.paused.send(());
            self.went_on.recv().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            return Ok(false);
        }
        Ok(is_readable)
    }

    /// Reads the keys that there are.
    fn read(&self) -> io::Result<()> {
        /// With no time at all, crossterm does not look.
        const A_LOOK: Duration = Duration::from_millis(1);
        while crossterm::event::poll(A_LOOK)? {
            match crossterm::event::read()? {
                Event::Key(key) => self.send(Message::Input(Input::Key(key)))?,
                Event::Paste(text) => self.send(Message::Input(Input::Paste(text)))?,
                Event::Resize(columns, rows) => {
                    self.send(Message::Input(Input::Resize(columns.into(), rows.into())))?;
                }
                Event::FocusGained => self.send(Message::Input(Input::Focus(true)))?,
                Event::FocusLost => self.send(Message::Input(Input::Focus(false)))?,
                Event::Mouse(_) => {}
            }
        }
        Ok(())
    }
}

/// Writes to standard output, but never waits for a reader.
pub(super) fn write_unless_full(bytes: &str) -> io::Result<()> {
    let output = io::stdout();
    let mut fds = [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }))?;
    if fds[0].revents().contains(PollFlags::OUT) {
        rustix::io::write(&output, bytes.as_bytes())?;
    }
    Ok(())
}
