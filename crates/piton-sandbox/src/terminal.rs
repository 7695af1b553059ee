//! A terminal of a command's own.

use rustix::fd::OwnedFd;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::io;

/// What every program can draw on.
const SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
/// Both ends of a terminal.
#[derive(Debug)]
pub struct Terminal {
    /// Where somebody outside reads what is drawn.
    pub outside: OwnedFd,
    /// What a command has for its standard streams.
    pub inside: OwnedFd,
}

impl Terminal {
    /// One of 80 columns and 24 lines. What is written to its outer end is typed.
    pub fn open() -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let outside = openpt(flags)?;
        grantpt(&outside)?;
        unlockpt(&outside)?;
        let inside = ioctl_tiocgptpeer(&outside, flags)?;
        tcsetwinsize(&inside, SIZE)?;
        Ok(Self { outside, inside })
    }
}
