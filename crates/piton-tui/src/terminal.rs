//! A face at a real terminal: a thread of its own that reads keys, draws frames, and puts everything back at the end.
//!
//! ```text
//!   reader thread ── keys, answers of the terminal ──┐
//!   whoever holds the session ── Terminal::tell ─────┼──► face thread ── bytes ──► terminal
//!                              ◄── effects ──────────┘
//! ```
//!
//! The thread never waits for a session, and no session for it: a terminal that reads nothing holds up frames, not work.
//! Modes are set after the first frame is drawn, and are taken back however the face ends: when it is left, by a panic,
//! by a signal ([`Terminal`] is dropped, [`restore`].)

mod early;
mod reader;
#[cfg(test)]
mod tests;

use crate::ansi::Links;
use crate::face::{Effect, Face, Input};
use crate::full::Full;
use crate::inline::{Frame, Inline};
use crate::linear::Linear;
use crate::page;
use crate::signals::{Signals, Wishes};
use base64::Engine as _;
use early::Answer;
use piton_core::client::{Live, Published};
use ratatui_core::text::Line;
use reader::Reader;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two frames that no key asked for.
const FRAME: Duration = Duration::from_millis(25);
/// How often what moves by itself does.
const TICK: Duration = Duration::from_millis(100);
/// How long a terminal is waited for that does not read, when the face is to end.
const PATIENCE: Duration = Duration::from_millis(500);
/// Things that are told and not taken, beyond which fragments are left out: their records say them again.
const MOST_UNTAKEN: usize = 8_192;

/// Pasted text comes marked as such, and whether anybody looks is told; the cursor's shape and keys stay as they are.
const ENTER: &str = "\x1b[?2004h\x1b[?1004h";
/// Keys that older terminals cannot tell apart are told apart.
const KITTY: (&str, &str) = ("\x1b[>1u", "\x1b[<u");
/// Takes every mode back that may have been set, whichever were.
const LEAVE: &str = "\x1b[?1004l\x1b[?2004l\x1b[?25h";
const PAGE: (&str, &str) = ("\x1b[?1049h", "\x1b[?1049l\x1b[?25h");

/// Whether the terminal is in our modes, has told keys apart, shows a page.
static IS_OURS: AtomicBool = AtomicBool::new(false);
static HAS_KITTY: AtomicBool = AtomicBool::new(false);
static HAS_PAGE: AtomicBool = AtomicBool::new(false);
/// Whether the terminal understands no sequences at all: none is ever sent.
static IS_PLAIN: AtomicBool = AtomicBool::new(false);
/// What takes back what stands beside the screen.
static UNDO: Mutex<String> = Mutex::new(String::new());
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// The name of its thread.
const FACE: &str = "face";

/// Where a person sits.
#[derive(Debug)]
pub struct Seat {
    /// Keys come from here.
    pub input: File,
    /// Frames go there.
    pub output: File,
}

/// How a terminal is used, beside what stands on the screen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Around {
    /// What it is told beside the screen.
    pub signals: Wishes,
    /// Whether the screen is heard and not seen: lines are appended, and nothing is drawn again.
    pub is_heard: bool,
    /// Whether the whole screen is used from the beginning.
    pub is_full: bool,
    /// Whether the terminal understands no sequences (`TERM=dumb`): lines are appended, as for somebody who hears them.
    pub is_plain: bool,
}

/// A face that is on the screen.
#[derive(Debug)]
pub struct Terminal {
    messages: Sender<Message>,
    untaken: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
    ended: Receiver<()>,
}

/// What the face's thread is sent.
enum Message {
    Input(Input),
    Answer(Answer),
    /// The terminal is wanted by somebody else: said when it is free, and wanted back when the other end is dropped.
    Lend {
        is_free: Sender<()>,
        back: Receiver<()>,
    },
    Stop,
}

impl Terminal {
    /// Puts the face on the screen. Effects are handed to `act`, on the face's thread: it must not wait.
    pub fn start(face: Face, seat: Seat, around: Around, act: impl Fn(Effect) + Send + 'static) -> io::Result<Self> {
        restore_on_panic();
        let (messages, inbox) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let untaken = Arc::new(AtomicUsize::new(0));
        let sender = messages.clone();
        let taken = Arc::clone(&untaken);
        let (enters, entered) = mpsc::channel();
        let runs = move || {
            let mut screen = match Screen::enter(face, seat, around, sender) {
                Ok(screen) => screen,
                Err(error) => return drop((enters.send(Err(error)), end)),
            };
            let _ = enters.send(Ok(()));
            screen.run(&inbox, &taken, &act);
            screen.leave();
            drop(end);
        };
        let thread = std::thread::Builder::new().name(FACE.to_owned()).spawn(runs)?;
        let terminal = Self { messages, untaken, thread: Some(thread), ended };
        // Where it cannot be entered, the terminal is left as it was.
        entered.recv().unwrap_or(Err(io::ErrorKind::BrokenPipe.into()))?;
        Ok(terminal)
    }

    /// Tells the face something.
    pub fn tell(&self, input: Input) {
        self.untaken.fetch_add(1, Ordering::Relaxed);
        // Where the face is gone, nobody listens.
        let _ = self.messages.send(Message::Input(input));
    }

    /// Tells it what a session tells. A face that does not keep up misses fragments.
    pub fn hear(&self, published: Published) {
        let is_fragment = matches!(&published, Published::Live(live) if !matches!(**live, Live::Paused { .. }));
        if !is_fragment || self.untaken.load(Ordering::Relaxed) < MOST_UNTAKEN {
            self.tell(Input::Heard(Box::new(published)));
        }
    }

    /// The terminal may have another size.
    pub fn resized(&self) {
        let (columns, rows) = size();
        let _ = self.messages.send(Message::Input(Input::Resize(columns, rows)));
    }

    /// Whether the face is still there: its terminal may have gone.
    pub fn is_there(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Lends the terminal to somebody else, in the modes that it was found in, until what comes back is dropped.
    pub fn lend(&self) -> Lent {
        let (free, is_free) = mpsc::channel();
        let (given_back, back) = mpsc::channel();
        if self.messages.send(Message::Lend { is_free: free, back }).is_ok() {
            let _ = is_free.recv_timeout(PATIENCE);
        }
        Lent { _back: given_back }
    }
}

/// A terminal that somebody else uses.
#[derive(Debug)]
pub struct Lent {
    _back: Sender<()>,
}

impl Drop for Terminal {
    /// Takes the face off the screen. Where the terminal does not read, it is given up after a while, in its old modes.
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
        let is_over = !matches!(self.ended.recv_timeout(PATIENCE), Err(RecvTimeoutError::Timeout));
        if let Some(thread) = self.thread.take().filter(|_| is_over) {
            drop(thread.join());
        }
        restore();
    }
}

/// Puts the terminal back into the modes that it was found in, from whatever thread, as often as one likes.
pub fn restore() {
    if !IS_OURS.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut bytes = std::mem::take(&mut *UNDO.lock().unwrap_or_else(PoisonError::into_inner));
    if HAS_PAGE.swap(false, Ordering::SeqCst) {
        bytes.push_str(PAGE.1);
    }
    if HAS_KITTY.swap(false, Ordering::SeqCst) {
        bytes.push_str(KITTY.1);
    }
    bytes.push_str(LEAVE);
    if IS_PLAIN.load(Ordering::SeqCst) {
        bytes.clear();
    }
    // A terminal that takes no bytes any more has lost its modes with everything else.
    let _ = reader::write_unless_full(&bytes);
    let _ = crossterm::terminal::disable_raw_mode();
}

/// What panicked while the face had the terminal.
pub fn panics() -> Vec<String> {
    std::mem::take(&mut PANICS.lock().unwrap_or_else(PoisonError::into_inner))
}

fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_face = std::thread::current().name() == Some(FACE);
            if is_face {
                restore();
            }
            // What a task survives is no reason to take the terminal from the face; it is said when that is gone.
            if !is_face && IS_OURS.load(Ordering::SeqCst) {
                PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
            } else {
                before(panic);
            }
        }));
    });
}

/// The face's thread: what it draws on, and what of it is drawn.
struct Screen {
    face: Face,
    surface: Inline,
    /// The surface that has the whole screen.
    full: Full,
    /// The surface of somebody who hears the screen, in the place of that.
    linear: Option<Linear>,
    output: File,
    reader: Reader,
    signals: Signals,
    began: Instant,
    began_ms: u64,
    /// The rows of the page that is on the screen.
    page: Vec<Line<'static>>,
    /// The size that the inline rows are to be drawn for, once no page is in their place.
    resized: Option<(usize, usize)>,
    /// Whether frames can still be written.
    is_broken: bool,
}

impl Screen {
    fn enter(
        mut face: Face,
        seat: Seat,
        Around { signals, is_heard, is_full, is_plain }: Around,
        messages: Sender<Message>,
    ) -> io::Result<Self> {
        crossterm::terminal::enable_raw_mode()?;
        IS_OURS.store(true, Ordering::SeqCst);
        IS_PLAIN.store(is_plain, Ordering::SeqCst);
        let signals = if is_plain { Wishes::none() } else { signals };
        let (columns, rows) = size();
        face.take(Input::Resize(columns, rows), 0);
        let Seat { input, output } = seat;
        let reader = Reader::new(input)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mut screen = Self {
            face,
            surface: Inline::new(columns, rows),
            full: Full::new(columns, rows),
            linear: (is_heard || is_plain).then(Linear::default),
            output,
            reader,
            signals: Signals::new(signals),
            began: Instant::now(),
            began_ms: u64::try_from(now.as_millis()).unwrap_or_default(),
            page: Vec::new(),
            resized: None,
            is_broken: false,
        };
        if is_full && !is_plain {
            screen.full.enter();
        }
        screen.draw();
        screen.set_modes(early::QUERIES);
        screen.reader.start(messages)?;
        Ok(screen)
    }

    /// Pastes are marked, focus is told; and what else is to be sent with that.
    fn set_modes(&mut self, more: &str) {
        if !IS_PLAIN.load(Ordering::SeqCst) {
            self.write(&format!("{ENTER}{more}"));
        }
    }

    fn now_ms(&self) -> u64 {
        self.began_ms + u64::try_from(self.began.elapsed().as_millis()).unwrap_or_default()
    }

    fn run(&mut self, inbox: &Receiver<Message>, untaken: &AtomicUsize, act: &dyn Fn(Effect)) {
        let mut drawn = Instant::now();
        let mut ticked = drawn;
        let mut is_dirty = false;
        let mut is_urgent = false;
        while !self.is_broken {
            let message = if is_urgent {
                inbox.try_recv().map_err(|_| RecvTimeoutError::Timeout)
            } else if is_dirty || self.face.is_looking() {
                inbox.recv_timeout(FRAME.saturating_sub(drawn.elapsed()))
            } else if self.face.moves() {
                inbox.recv_timeout(TICK.saturating_sub(drawn.elapsed()))
            } else {
                inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match message {
                Ok(Message::Input(input)) => {
                    if !matches!(input, Input::Key(_) | Input::Paste(_) | Input::Resize(..) | Input::Focus(_)) {
                        untaken.fetch_sub(1, Ordering::Relaxed);
                    }
                    is_urgent |= input.is_of_person();
                    is_dirty = true;
                    self.take(input, act);
                }
                Ok(Message::Answer(answer)) => self.learn(&answer),
                Ok(Message::Lend { is_free, back }) => {
                    self.lend(&is_free, &back);
                    is_dirty = true;
                }
                Err(RecvTimeoutError::Timeout) => {
                    if !is_dirty && ticked.elapsed() >= TICK {
                        self.take(Input::Tick, act);
                        ticked = Instant::now();
                    }
                    self.draw();
                    (drawn, is_dirty, is_urgent) = (Instant::now(), false, false);
                }
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, input: Input, act: &dyn Fn(Effect)) {
        let now_ms = self.now_ms();
        if let Input::Focus(is_focused) = input {
            self.signals.focus(is_focused);
        }
        if let Input::Facts(facts) = &input {
            self.surface.links = Links::below(&facts.workspace);
            self.full.links = self.surface.links.clone();
        }
        if let Input::Resize(columns, rows) = input {
            self.page.clear();
            self.full.resize(columns, rows);
            self.resized = Some((columns, rows));
            if !HAS_PAGE.load(Ordering::SeqCst) {
                self.resize();
            }
        }
        for effect in self.face.take(input, now_ms) {
            match effect {
                Effect::Copy(text) => {
                    self.copy(&text);
                    // A terminal does not say whether it took it: a program of the desktop does.
                    act(Effect::Copy(text));
                }
                Effect::Redraw | Effect::Full(_) | Effect::Scroll(_) if self.linear.is_some() => {}
                Effect::Full(wanted) => self.use_screen(wanted.unwrap_or(!self.full.is_shown())),
                Effect::Scroll(screens) => self.full.scroll(screens),
                // What has the screen is drawn anew; the rows below a page are, when it is closed.
                Effect::Redraw if self.face.has_page() => self.page.clear(),
                Effect::Redraw if self.full.is_shown() => self.full.redraw(),
                Effect::Redraw => {
                    let bytes = self.surface.redraw();
                    self.write(&bytes);
                }
                effect => act(effect),
            }
        }
    }

    /// Asks the terminal to put this on the clipboard (OSC 52).
    fn copy(&mut self, text: &str) {
        if !IS_PLAIN.load(Ordering::SeqCst) {
            let coded = base64::engine::general_purpose::STANDARD.encode(text);
            self.write(&format!("\x1b]52;c;{coded}\x07"));
        }
    }

    fn draw(&mut self) {
        // A key may have passed without time having.
        let now_ms = self.now_ms();
        let bytes = self.signals.tell(&self.face.standing(), now_ms);
        if !bytes.is_empty() {
            *UNDO.lock().unwrap_or_else(PoisonError::into_inner) = self.signals.undo();
            self.write(&bytes);
        }
        if let Some(linear) = &mut self.linear {
            let bytes = linear.draw(&self.face.spoken(now_ms));
            return self.write(&bytes);
        }
        if let Some(rows) = self.face.page() {
            let mut bytes = String::new();
            if !HAS_PAGE.swap(true, Ordering::SeqCst) {
                bytes.push_str(PAGE.0);
                self.page.clear();
            }
            if self.page != rows {
                bytes.push_str(&page::draw(&rows, &self.surface.links, self.surface.syncs));
                self.page = rows;
            }
            return self.write(&bytes);
        }
        if self.full.is_shown() {
            return self.draw_full(now_ms);
        }
        self.close_page();
        self.resize();
        let frame = self.face.frame(now_ms);
        self.full.keep(&frame.commit);
        let bytes = self.surface.draw(frame);
        self.write(&bytes);
    }

    /// The whole screen is used, or the scrollback again.
    fn use_screen(&mut self, is_full: bool) {
        match is_full {
            true if !self.full.is_shown() => self.full.enter(),
            false if self.full.is_shown() => self.leave_full(),
            _ => {}
        }
    }

    fn draw_full(&mut self, now_ms: u64) {
        let mut bytes = String::new();
        let was_page = !self.page.is_empty();
        if !HAS_PAGE.swap(true, Ordering::SeqCst) {
            bytes.push_str(PAGE.0);
            self.full.redraw();
        }
        if was_page {
            self.page.clear();
            self.full.redraw();
        }
        let frame = self.face.frame(now_ms);
        bytes.push_str(&self.full.draw(frame));
        self.write(&bytes);
    }

    /// What became final on the other screen goes where it would have stood without it.
    fn leave_full(&mut self) {
        let commit = self.full.leave();
        self.close_page();
        self.resize();
        let bytes = self.surface.draw(Frame { commit, ..Frame::default() });
        self.write(&bytes);
    }

    fn close_page(&mut self) {
        if HAS_PAGE.swap(false, Ordering::SeqCst) {
            self.write(PAGE.1);
            self.page.clear();
        }
    }

    /// The inline rows are to be drawn for another size.
    fn resize(&mut self) {
        if self.linear.is_some() {
            return;
        }
        if let Some((columns, rows)) = self.resized.take() {
            let bytes = self.surface.resize(columns, rows);
            self.write(&bytes);
        }
    }

    /// Takes notice of what the terminal can do.
    fn learn(&mut self, answer: &Answer) {
        match answer {
            Answer::Sync => (self.surface.syncs, self.full.syncs) = (true, true),
            Answer::Kitty => {
                HAS_KITTY.store(true, Ordering::SeqCst);
                self.write(KITTY.0);
            }
            Answer::Version(name) => {
                self.surface.reflows = !name.starts_with("XTerm");
                self.signals.learn(name);
            }
            Answer::Background(rgb) => self.face.learn_background(*rgb),
        }
    }

    fn lend(&mut self, is_free: &Sender<()>, back: &Receiver<()>) {
        let kitty = HAS_KITTY.load(Ordering::SeqCst);
        self.reader.pause();
        let was_full = self.full.is_shown();
        if was_full {
            self.leave_full();
        }
        self.close_page();
        let bytes = self.end_of_surface();
        self.write(&bytes);
        restore();
        self.signals.end();
        let _ = is_free.send(());
        let _ = back.recv();
        let _ = crossterm::terminal::enable_raw_mode();
        IS_OURS.store(true, Ordering::SeqCst);
        HAS_KITTY.store(kitty, Ordering::SeqCst);
        let (columns, rows) = size();
        let (syncs, reflows) = (self.surface.syncs, self.surface.reflows);
        let links = std::mem::take(&mut self.surface.links);
        self.surface = Inline::new(columns, rows);
        (self.surface.syncs, self.surface.reflows, self.surface.links) = (syncs, reflows, links);
        self.full.resize(columns, rows);
        if was_full {
            self.full.enter();
        }
        self.face.take(Input::Resize(columns, rows), 0);
        self.set_modes(if kitty { KITTY.0 } else { "" });
        self.draw();
        self.reader.go_on();
    }

    /// What leaves the cursor in the first column, below what stays.
    fn end_of_surface(&mut self) -> String {
        match &mut self.linear {
            Some(linear) => linear.end(),
            None => self.surface.clear(),
        }
    }

    fn write(&mut self, bytes: &str) {
        if !bytes.is_empty() && self.output.write_all(bytes.as_bytes()).is_err() {
            self.is_broken = true;
        }
    }

    fn leave(&mut self) {
        self.reader.pause();
        if self.full.is_shown() {
            self.leave_full();
        }
        self.close_page();
        // What streams stays as far as it came; then the rest of the tail goes.
        let now_ms = self.now_ms();
        if let Some(linear) = &mut self.linear {
            let bytes = linear.draw(&self.face.last_spoken(now_ms));
            self.write(&bytes);
        } else {
            let frame = self.face.last_frame(now_ms);
            let bytes = self.surface.draw(frame);
            self.write(&bytes);
        }
        let bytes = self.end_of_surface();
        self.write(&bytes);
        restore();
    }
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    /// Of a terminal that does not say.
    const USUAL: (u16, u16) = (80, 24);
    let (columns, rows) =
        crossterm::terminal::size().ok().filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(USUAL);
    (columns.into(), rows.into())
}
