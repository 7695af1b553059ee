//! `piton permission`: what was allowed for the rest of a session, and taking that back.

use crate::cli::{PermissionCommand, SettingFlags};
use crate::commands::sessions::find;
use crate::commands::sessions::said::when;
use crate::failure::{Failure, Result, bail};
use crate::out::{print, report, view};
use crate::settings;
use crate::surroundings::Surroundings;
use piton_core::call::Access;
use piton_core::client::{Reply, Request};
use piton_core::event::TurnEnd;
use piton_core::ids::SessionId;
use piton_core::permission::{Action, Ask, Grant, PermissionMode, Rule, Rules, Voice};
use piton_core::turn::State;
use piton_engine::assemble::{self, Wishes, environment, foreign, sources};
use piton_engine::control::{Connection, Incoming};
use piton_engine::engine::Engine;
use piton_engine::standing::Standing;
use piton_tools::bash::Bash;
use piton_tools::disk::Disk;
use piton_tools::files::Files;
use piton_tools::plan::Look;
use piton_tools::tool::Tool as _;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// How the newest session of a folder is called.
const NEWEST: &str = "last";

/// Obeys one of the permission commands.
pub(crate) async fn permission(command: PermissionCommand, around: &Surroundings) -> Result<u8> {
    let engine = Engine::open(&around.machine.data_dir);
    match command {
        PermissionCommand::List { id, json } => {
            let has_rules = rules(around, json)?;
            let id = match id {
                Some(said) => Some(find::find(&engine, around, &said)?),
                // A folder without a session has rules all the same.
                None => find::find(&engine, around, NEWEST).ok(),
            };
            match id {
                Some(id) => list(&id, &grants(&engine, &id).await?, json),
                None if has_rules || json => {}
                None => {
                    view::write_stderr("no rules here, and no session that has allowed anything: the mode decides\n");
                }
            }
        }
        PermissionCommand::Check { json, mode, settings, command } => {
            return check(&command, (mode, &settings), json, around);
        }
        PermissionCommand::Revoke { tools, session } => {
            let standing = Standing::in_folder(&around.machine.data_dir);
            let workspace = around.workspace(None)?;
            // A session that is named has its own alone.
            let gone = match session {
                None => standing.take_back(&tools, &workspace).map_err(|error| Failure::user(error.to_string()))?,
                Some(_) => Vec::new(),
            };
            for kept in &gone {
                let from = kept.rule().and_then(|rule| rule.layer).unwrap_or_default();
                view::write_stderr(&format!("{} is asked about again (it was {from})\n", kept.rule));
            }
            let is_left = |name: &String| !gone.iter().any(|kept| kept.rule == *name);
            let left: Vec<String> = tools.iter().filter(|name| is_left(name)).cloned().collect();
            let is_over = !gone.is_empty() && left.is_empty() && !tools.is_empty();
            match find::find(&engine, around, session.as_deref().unwrap_or(NEWEST)) {
                Ok(id) if !is_over => revoke(&engine, &id, left).await?,
                Err(error) if gone.is_empty() => return Err(error),
                // What was kept is gone; the session's own by that name, too, where it has one.
                Ok(id) => {
                    let granted = grants(&engine, &id).await?;
                    let own = tools.into_iter().filter(|name| granted.iter().any(|grant| grant.rule.is_called(name)));
                    let own: Vec<String> = own.collect();
                    if !own.is_empty() {
                        revoke(&engine, &id, own).await?;
                    }
                }
                Err(_) => {}
            }
        }
    }
    Ok(0)
}

async fn grants(engine: &Engine, id: &SessionId) -> Result<Vec<Grant>> {
    Ok(State::fold(&engine.records(id).await?).grants().to_vec())
}

/// The rules in force in this folder, and where each comes from. Answers whether there are any.
fn rules(around: &Surroundings, as_json: bool) -> Result<bool> {
    let found = sources::found(&around.machine, &around.workspace(None)?)?;
    let layered = sources::layered(&around.machine, found.in_force.as_ref(), &[])?;
    let mut has_rules = !layered.rules.is_empty();
    for (rule, origin) in layered.rules {
        let from = origin.to_string();
        view::write_stdout(&if as_json {
            format!("{}\n", json!({"rule": rule.to_string(), "action": rule.action, "from": from}))
        } else {
            let voice = match rule.voice {
                Voice::User | Voice::Agent | Voice::Narrowing => "",
                Voice::Repository => ", the repository's",
                Voice::Preset => ", the preset's",
            };
            format!("{:<5} {rule:<30} {from}{voice}\n", rule.action.word())
        });
    }
    let (mut theirs, mut notices) = (Rules::default(), Vec::new());
    let workspace = around.workspace(None)?;
    foreign::add_to(&mut theirs, &layered.config, &around.machine, &workspace, &mut notices);
    has_rules |= !theirs.is_empty();
    for rule in theirs.0 {
        let from = view::clean(rule.layer.as_deref().unwrap_or_default());
        view::write_stdout(&if as_json {
            format!("{}\n", json!({"rule": rule.to_string(), "action": rule.action, "from": from}))
        } else {
            format!("{:<5} {:<30} {from}\n", rule.action.word(), view::clean(&rule.to_string()))
        });
    }
    print::notices(&notices);
    let standing = Standing::in_folder(&around.machine.data_dir).list();
    let standing = standing.map_err(|error| Failure::user(error.to_string()))?;
    has_rules |= !standing.is_empty();
    for kept in standing {
        let from = kept.rule().and_then(|rule| rule.layer).unwrap_or_default();
        let (rule, since) = (&kept.rule, kept.at_ms);
        view::write_stdout(&if as_json {
            format!("{}\n", json!({"rule": rule, "action": Action::Allow, "from": from, "since_ms": since}))
        } else {
            format!("{:<5} {rule:<30} {from} since {}\n", Action::Allow.word(), when(since))
        });
    }
    print::notices(&sources::remarks(&found));
    Ok(has_rules)
}

/// What would become of a command, part by part. The exit code is 0 if it would run unasked, else 3.
fn check(
    command: &[String],
    (mode, flags): (Option<PermissionMode>, &SettingFlags),
    as_json: bool,
    around: &Surroundings,
) -> Result<u8> {
    let workspace = around.workspace(None)?;
    let flags = flags.layers();
    let config = settings::of_workspace(around, &workspace, &flags)?;
    let wishes = Wishes { flags, mode, is_watched: true, ..Wishes::default() };
    let mut notices = Vec::new();
    let (mut policy, _) = assemble::policy::of_session(&config, &around.machine, &wishes, &mut notices)?;
    let standing = Standing::in_folder(&around.machine.data_dir);
    if let Err(told) = standing.add_to(&mut policy.permission, &workspace) {
        view::write_stderr(&format!("note: {}\n", view::clean(&told)));
    }
    foreign::add_to(&mut policy.permission, &config, &around.machine, &workspace, &mut notices);
    print::notices(&notices);
    let command = match command {
        [one] => one.clone(),
        words => shell_words(words),
    };
    let files: Arc<dyn Files> = Arc::new(Disk::new(around.machine.data_dir.join("sessions")));
    let is_confined = !policy.sandbox.is_off();
    let env = Arc::new(environment::for_tools(&around.machine.vars, &config));
    let look = Look::without_session(workspace.clone(), files, is_confined, env);
    let planned = Bash.plan(&json!({"command": command}), &look).map_err(|refused| Failure::user(refused.text))?;
    let workspace = workspace.to_string_lossy();
    let ask = Ask {
        tool: "bash",
        accesses: &planned.planned.accesses,
        workspace: &workspace,
        is_confined,
        reach: &policy.reach,
    };
    let judged = policy.permission.judge_in(policy.mode, &[], &ask);
    let undone = undone(&ask);
    let place = if is_confined { "in the sandbox" } else { "with all your rights" };
    if as_json {
        let always: Vec<String> = judged.remember.0.iter().map(ToString::to_string).collect();
        let said = json!({
            "command": command, "mode": policy.mode, "action": judged.action, "confined": is_confined,
            "parts": judged.parts, "always": always, "undone": undone,
        });
        view::write_stdout(&format!("{said}\n"));
    } else {
        for part in &judged.parts {
            let from = |rule: &Rule| rule.layer.as_ref().map(|from| format!(" of {from}")).unwrap_or_default();
            let by = |rule: &Rule| format!("by the rule {rule}{}", from(rule));
            let by = part.rule.as_ref().map_or_else(|| part.why.clone(), by);
            view::write_stdout(&format!("{:<5} {}  ({by})\n", part.action.word(), view::clean(&part.named())));
        }
        for path in &undone {
            let path = view::clean(path);
            view::write_stdout(&format!("note  {path} is protected: the sandbox does not let a command keep it\n"));
        }
        let verdict = match judged.action {
            Action::Allow if !undone.is_empty() => format!("would not keep what it writes: it runs {place}"),
            Action::Allow => format!("runs {place}"),
            Action::Ask => format!("is asked about, and would run {place}"),
            Action::Deny => "is refused".to_owned(),
        };
        let is_usual = mode.is_none() && config.permission_mode.is_none();
        let whose = if is_usual { ", in which a session on a terminal starts here" } else { "" };
        view::write_stdout(&format!("the command {verdict} (mode {}{whose})\n", policy.mode));
    }
    // What a run ends with that may not go on: it was asked, or refused.
    Ok(if judged.action == Action::Allow && undone.is_empty() { 0 } else { report::exit_code(TurnEnd::ToolDenied) })
}

/// The protected paths that a confined command would make: they do not stay. Git's own are its business, and mounted.
fn undone(ask: &Ask<'_>) -> Vec<String> {
    let leaves = ask.accesses.iter().any(|access| matches!(access, Access::Unsandboxed(_)));
    let written = ask.accesses.iter().filter_map(|access| match access {
        Access::Write(path) if ask.is_confined && !leaves => Some(path),
        _ => None,
    });
    let is_of_git = |path: &str| Path::new(path).components().any(|part| part.as_os_str() == ".git");
    let undone = written.filter(|path| ask.reach.protects(ask.workspace, path) && !is_of_git(path));
    undone.cloned().collect()
}

/// Words as a shell reads them back.
fn shell_words(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let is_plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./=:@%+,".contains(c));
        if is_plain { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn list(id: &SessionId, grants: &[Grant], as_json: bool) {
    for grant in grants {
        let short = print::short_id(id.as_str());
        let (rule, tool, at_ms) = (grant.rule.to_string(), &grant.rule.tool, grant.at_ms);
        view::write_stdout(&if as_json {
            let action = grant.rule.action;
            format!("{}\n", json!({"rule": rule, "tool": tool, "action": action, "since_ms": at_ms}))
        } else {
            format!("{:<5} {rule:<30} in {short} since {}\n", grant.rule.action.word(), when(at_ms))
        });
    }
    if grants.is_empty() && !as_json {
        view::write_stderr(&format!(
            "no tool is allowed with \"always\" in {id}; `piton config show` shows the rules for this folder\n"
        ));
    }
}

async fn revoke(engine: &Engine, id: &SessionId, tools: Vec<String>) -> Result<()> {
    let granted = grants(engine, id).await?;
    let is_granted = |tool: &String| granted.iter().any(|grant| grant.rule.is_called(tool));
    if let Some(tool) = tools.iter().find(|tool| !is_granted(tool)) {
        bail!("{tool} is not allowed with \"always\" in {id}; `piton permission list` shows what is");
    }
    if granted.is_empty() {
        view::write_stderr(&format!("no tool is allowed with \"always\" in {id}\n"));
        return Ok(());
    }
    let what = if tools.is_empty() { "everything".to_owned() } else { tools.join(", ") };
    match Connection::open(&**engine.store(), id).await? {
        None => engine.revoke(id, tools).await?,
        Some(writer) => revoke_there(writer, id, tools).await?,
    }
    view::write_stderr(&format!("{what} is asked about again in {id}\n"));
    Ok(())
}

/// The same in a session that another process runs.
async fn revoke_there(mut writer: Connection, id: &SessionId, tools: Vec<String>) -> Result<()> {
    writer.ask(&Request::Revoke { tools }).await?;
    while let Some(told) = writer.next().await {
        match told {
            Incoming::Reply(Reply::Revoked { .. }) => return Ok(()),
            Incoming::Reply(Reply::Refused(refusal)) => bail!("{}", refusal.error),
            _ => {}
        }
    }
    bail!("the piton that runs {id} has left before it answered; try again")
}
