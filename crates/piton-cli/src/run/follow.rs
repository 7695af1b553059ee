//! A session that another process runs: watching it, speaking in it, stopping it.

use crate::cli::{FollowFormat, RunArgs};
use crate::failure::{Result, bail};
use crate::out::report;
use crate::out::view::{self, TextView};
use crate::run::shown::{self, Shown};
use crate::run::stops::{Stop, Stops, TICK};
use crate::run::task::Task;
use crate::surroundings::Surroundings;
use piton_core::client::{Prompt, Published, Refusal, Reply, Report, Request};
use piton_core::event::{Event, Record};
use piton_core::ids::{MessageId, SessionId};
use piton_engine::control::{Awaited, Connection, Follower, Told};
use piton_engine::engine::{Engine, new_message_id};
use std::sync::Arc;

/// How speaking in a session that somebody else runs went.
pub(crate) enum Joined<Unsaid> {
    /// The turn is over; this is the exit code.
    Over(u8),
    /// Nobody runs the session, or nobody does any more. What is still to be said, if anything is.
    Alone(Unsaid),
}

/// A session that is followed.
struct Watch<'a> {
    id: &'a SessionId,
    follower: Follower,
    awaited: Awaited,
    shown: &'a mut Shown,
    prompt: Option<(MessageId, Task)>,
    /// Who runs it, once that is known.
    writer: Option<u32>,
}

/// What a look at a followed session ends with.
enum Heard {
    /// The turn that was waited for is over.
    Ended(Report),
    /// Nobody runs the session any more, and all is shown.
    Left,
    /// We were told to stop.
    Stopped(Stop),
}

/// Says something in a session that somebody else runs, if somebody does, and shows the turn until it is answered;
/// without a prompt, until the turn under way is over. Ctrl-C only stops the watching.
///
/// `heard` is what was said before, in the session of a process that has left since, and is on record; here it is noted.
pub(crate) async fn join(
    engine: &Engine,
    id: &SessionId,
    prompt: Option<Task>,
    heard: &mut Option<MessageId>,
    shown: &mut Shown,
    args: &RunArgs,
) -> Result<Joined<Option<Task>>> {
    if engine.store().holder(id).await.is_none() {
        return Ok(Joined::Alone(prompt));
    }
    adds_nothing(id, args)?;
    let prompt = prompt.map(|text| (new_message_id(), text));
    let records = engine.records(id).await?;
    let message = prompt.as_ref().map(|(message, _)| message).or(heard.as_ref());
    let awaited = Awaited::after(&records, message.cloned());
    let follower = Follower::new(Arc::clone(engine.store()), id.clone(), awaited.next_seq());
    let mut watch = Watch { id, follower, awaited, shown, prompt, writer: None };
    watch.remember(&records);
    match watch.until_answered().await? {
        Heard::Ended(report) => {
            let code = report::exit_code(report.end);
            shown::finish(watch.shown, &report, id.as_str(), code, args);
            Ok(Joined::Over(code))
        }
        Heard::Stopped(stop) => Ok(Joined::Over(watch.stopped(stop))),
        Heard::Left => {
            let is_heard = watch.awaited.is_heard();
            if watch.awaited.session().is_in_turn() {
                let said = match (&watch.prompt, is_heard) {
                    (None, _) => "",
                    (Some(_), true) => "; what you said is kept",
                    (Some(_), false) => "; what you said was not heard",
                };
                bail!("{}{said}", cut_off(id, watch.writer));
            }
            if let Some(pid) = watch.writer {
                view::write_stderr(&format!("process {pid} has left {id}; going on here\n"));
            }
            let Some((message, task)) = watch.prompt else { return Ok(Joined::Alone(None)) };
            if !is_heard {
                return Ok(Joined::Alone(Some(task)));
            }
            *heard = Some(message);
            Ok(Joined::Alone(None))
        }
    }
}

/// Fails where a turn that another process runs would have to come to more than it does there.
pub(crate) fn adds_nothing(id: &SessionId, args: &RunArgs) -> Result<()> {
    let adds = [("--check", !args.settings.check.is_empty()), ("--output-schema", args.output_schema.is_some())];
    if let Some((flag, _)) = adds.iter().find(|(_, is_said)| *is_said) {
        bail!(
            "another process runs {id}, by its own rules: {flag} cannot be added to what it does, and nothing was said \
             there. Say it without {flag}, or once that process has left"
        );
    }
    Ok(())
}

/// How the turn ended that answered this message, once it has.
pub(crate) fn answered(records: &[Record], message: &MessageId) -> Option<Report> {
    let mut awaited = Awaited::after(&[], Some(message.clone()));
    records.iter().find_map(|record| awaited.hear(record))
}

/// `piton session follow`.
pub(crate) async fn follow(
    engine: &Engine,
    id: &SessionId,
    from: u64,
    format: FollowFormat,
    around: &Surroundings,
) -> Result<u8> {
    let mut shown = match format {
        FollowFormat::Text => Shown::Text(TextView::new(false, around.may_animate())),
        FollowFormat::StreamJson => Shown::stream_json(),
    };
    let count = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
    let before = if count > 0 { engine.store().read(id, 1, count).await? } else { Vec::new() };
    let follower = Follower::new(Arc::clone(engine.store()), id.clone(), from);
    let awaited = Awaited::after(&before, None);
    let mut watch = Watch { id, follower, awaited, shown: &mut shown, prompt: None, writer: None };
    watch.remember(&before);
    loop {
        match watch.until_answered().await? {
            Heard::Ended(report) => watch.show_end(&report),
            Heard::Stopped(stop) => return Ok(watch.stopped(stop)),
            Heard::Left => break,
        }
    }
    let is_cut_off = watch.awaited.session().is_in_turn();
    let events = view::plural(watch.awaited.next_seq() - 1, "event");
    match (watch.writer, is_cut_off) {
        (Some(_), true) => bail!(cut_off(id, watch.writer)),
        (Some(pid), false) => watch.say(&format!("process {pid} has left {id}: {events}")),
        (None, true) => watch.say(&format!(
            "nobody runs {id}, and it was cut off in the middle of a turn: {events}\n\
             Go on with piton run --resume {id}"
        )),
        (None, false) => watch.say(&format!("nobody runs {id}: this is all there is, {events}")),
    }
    Ok(0)
}

/// `piton session cancel`.
pub(crate) async fn cancel(engine: &Engine, id: &SessionId) -> Result<u8> {
    let Some(mut writer) = Connection::open(&**engine.store(), id).await? else {
        view::write_stderr(&format!("nothing to stop: nobody runs {id}\n"));
        return Ok(0);
    };
    // A writer that is gone is noticed below.
    drop(writer.ask(&Request::Cancel {}).await);
    while let Some(told) = writer.next().await {
        match told {
            Told::Reply(Reply::Ended { report, .. }) => {
                view::write_stdout(&format!("stopped turn {} of {id}\n", report.turn));
                return Ok(0);
            }
            Told::Reply(Reply::AtRest {}) => {
                view::write_stderr(&format!("nothing to stop: {id} is at rest\n"));
                return Ok(0);
            }
            Told::Reply(Reply::Refused(Refusal { error, .. })) => bail!(error),
            Told::Reply(_) | Told::Published(_) => {}
        }
    }
    let session = piton_core::turn::State::fold(&engine.records(id).await?);
    if session.is_in_turn() {
        bail!(cut_off(id, None));
    }
    view::write_stderr(&format!("{id} is at rest: the process that ran it has left\n"));
    Ok(0)
}

/// `piton session pause` and `continue`.
pub(crate) async fn pause(engine: &Engine, id: &SessionId, paused: bool) -> Result<u8> {
    let Some(mut writer) = Connection::open(&**engine.store(), id).await? else {
        let what = if paused { "pause" } else { "go on with here" };
        view::write_stderr(&format!("nothing to {what}: nobody runs {id}\n"));
        return Ok(0);
    };
    // A writer that is gone is noticed below.
    drop(writer.ask(&if paused { Request::Pause {} } else { Request::Continue {} }).await);
    while let Some(told) = writer.next().await {
        match told {
            Told::Reply(Reply::State { .. }) => {
                let (word, next) = match paused {
                    true => ("paused", format!("; go on with piton session continue {id}")),
                    false => ("going on", String::new()),
                };
                view::write_stdout(&format!("{word}: {id}{next}\n"));
                return Ok(0);
            }
            Told::Reply(Reply::Refused(Refusal { error, .. })) => bail!(error),
            Told::Reply(_) | Told::Published(_) => {}
        }
    }
    bail!("the process that ran {id} has left")
}

pub(crate) fn cut_off(id: &SessionId, writer: Option<u32>) -> String {
    let who = writer.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    format!("the piton{who} that ran {id} stopped in the middle of a turn; go on with piton run --resume {id}")
}

impl Watch<'_> {
    /// Takes notice of what was before, without showing it.
    fn remember(&mut self, records: &[Record]) {
        if let Shown::Text(view) = self.shown {
            records.iter().for_each(|record| view.remember(record));
        }
    }

    /// Shows what happens until the turn that is waited for is over.
    async fn until_answered(&mut self) -> Result<Heard> {
        let mut stops = Stops::listen()?;
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                biased;
                told = self.follower.next() => match told? {
                    None => return Ok(Heard::Left),
                    Some(Told::Published(published)) => {
                        if let Some(report) = self.take(&published) {
                            return Ok(Heard::Ended(report));
                        }
                    }
                    Some(Told::Reply(reply)) => self.hear(reply).await?,
                },
                stop = stops.next() => return Ok(Heard::Stopped(stop)),
                _ = tick.tick() => self.shown.tick(),
            }
        }
    }

    fn take(&mut self, published: &Published) -> Option<Report> {
        self.shown.show(published);
        let Published::Recorded(record) = published else { return None };
        if let Event::UserSpoke { parts, .. } = &record.event {
            self.shown.user_said(parts);
        }
        self.awaited.hear(record)
    }

    async fn hear(&mut self, reply: Reply) -> Result<()> {
        match reply {
            Reply::Hello { pid, .. } => {
                if self.writer.replace(pid) != Some(pid) {
                    let end = if self.prompt.is_some() { ": what you say joins it there, under its rules" } else { "" };
                    self.say(&format!("{} is run by process {pid}{end}", self.id));
                }
                if let Some((message, task)) = self.prompt.clone().filter(|_| !self.awaited.is_heard()) {
                    let Task { said: text, beside } = task;
                    let prompt = Prompt { text, beside, message: Some(message), ..Prompt::default() };
                    self.follower.ask(&Request::Prompt(prompt)).await;
                }
            }
            Reply::Refused(Refusal { error, .. }) => bail!(error),
            _ => {}
        }
        Ok(())
    }

    /// A turn's end, where the watching goes on.
    fn show_end(&mut self, report: &Report) {
        if let Shown::Text(view) = self.shown {
            view.summary(report, self.id.as_str());
        }
        if let Some(words) = report::ending(report, self.id.as_str()) {
            self.say(&words);
        }
    }

    /// The last words when only the watching stops, and the exit code.
    fn stopped(&mut self, stop: Stop) -> u8 {
        let (words, code) = (report::not_watching(self.id), stop.code());
        self.say(&words);
        code
    }

    fn say(&mut self, line: &str) {
        self.shown.note(line);
    }
}
