//! Judging a call: its tool plans it, the rules see what it will access, hooks have had their say; and the question,
//! where a person has to be asked. What comes of it is recorded ([`Event::CallRequested`], [`Event::ApprovalAsked`]), and
//! everybody after this reads it from there.
//!
//! After a restart a call that has not begun is judged again, by the rules of whoever goes on. A cancel drops what is not on
//! record. A tool that panics while it plans has failed. A panic while the question is
//! worded is caught: it is put in plain words.

use super::plans::Keeper;
use super::{JobContext, PANICKED, Step, Task, shown};
use crate::error::ShellError;
use piton_core::call::{Access, Effects, Outcome};
use piton_core::event::{Author, Event, Subject, Verdict};
use piton_core::hook::HookVerdict;
use piton_core::ids::CallId;
use piton_core::inquiry::Inquiry;
use piton_core::inquiry::planning;
use piton_core::message::ToolCall;
use piton_core::permission::{Action, Ask, Judged as Said, Judgement, PermissionMode, Rules};
use piton_core::question::{Fact, Mark, Question, QuestionBlock};
use piton_core::shell;
use piton_tools::files::Files;
use piton_tools::plan::{Links, Look, Plan, QuestionDraft, accesses};
use piton_tools::spawn::Confinement;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Judges a call: at once, where nobody has to be asked.
pub(super) fn take_up(call: &ToolCall, cx: &JobContext<'_>) -> Step {
    let call = cx.services.settings.tools.understand(call);
    let judged = judge(&call, cx);
    if call.name == shell::TOOL && matches!(judged.requested, Event::CallRequested { verdict: Verdict::Allow, .. }) {
        cx.services.expect_command(Path::new(cx.session.workspace()), cx.policy().mode);
    }
    match judged.question {
        None => Step::Record(vec![judged.requested]),
        Some(_) => Step::Start(Task::new(judged.ask(), |events, _| events)),
    }
}

/// A call that was judged.
struct Judged {
    requested: Event,
    question: Option<Unasked>,
}

/// A question that is not yet worded.
struct Unasked {
    subject: Subject,
    draft: QuestionDraft,
    /// Why a hook wants it to be asked.
    note: Option<String>,
    /// What it is that an "always" covers.
    tool: String,
    remember: Rules,
    /// Whether an "always" can be for longer than the session.
    can_last: bool,
    facts: Vec<Fact>,
    marks: Vec<Mark>,
    accesses: Vec<Access>,
    files: Arc<dyn Files>,
    /// What the model wants to know, in the place of a question whether it may.
    /// With who keeps the plan that it is about, where it is about one.
    inquiry: Option<(Inquiry, Keeper)>,
}

/// Judges a call, which must be one that the tools understand ([`piton_tools::toolset::ToolSet::understand`]).
fn judge(call: &ToolCall, cx: &JobContext<'_>) -> Judged {
    let (session, settings) = (cx.session, &cx.services.settings);
    let (changed, said) = (session.changed_input(&call.id).cloned(), session.hook_verdict(&call.id).cloned());
    let author = if changed.is_some() { Author::Hook } else { Author::Model };
    let own = || call.input.value().cloned().unwrap_or_default();
    let requested = |input, effects, verdict, plan, judged| Event::CallRequested {
        call: call.id.clone(),
        input: Some(input),
        author,
        effects,
        verdict,
        plan,
        judged,
    };
    let is_over = call.name == planning::TOOL && !settings.plans();
    let is_on_offer = !is_over && is_on_offer(call, cx);
    let Some((spec, tool)) = settings.tools.find(&call.name).filter(|_| is_on_offer) else {
        let text = not_there(call, is_over, cx);
        let input = changed.unwrap_or_else(own);
        return Judged {
            requested: requested(input, Effects::READ, Verdict::Refuse(text), None, None),
            question: None,
        };
    };
    let input = changed.map_or_else(own, |input| settings.tools.canonical(&call.name, input));
    let workspace = PathBuf::from(session.workspace());
    let files = cx.services.files_for_tools(&workspace);
    let look = look(&files, workspace, cx);
    // It must not take the session with it.
    let Ok(plan) = catch_unwind(AssertUnwindSafe(|| tool.plan(&input, &look).map_err(Box::new))) else {
        let refused = Verdict::Refuse(format!("The tool failed inside Piton: {PANICKED}."));
        return Judged { requested: requested(input, spec.effects, refused, None, None), question: None };
    };
    let plan = plan.map(|plan| if may_be(&plan, said.as_ref(), call, cx) { plan } else { instead_of(plan) });
    let effects = plan.as_ref().ok().and_then(|plan| plan.effects).unwrap_or(spec.effects);
    let (planned, places, inquiry, draft) = match plan {
        Ok(plan) => (Some(Box::new(plan.planned)), plan.places, plan.inquiry, Ok(plan.question)),
        Err(outcome) => (None, Vec::new(), None, Err(*outcome)),
    };
    let own = accesses(&spec);
    let accesses = planned.as_ref().map_or(&own, |plan| &plan.accesses);
    let judged = judged(&spec.name, accesses, call, cx);
    let on_record = Some(Box::new(Said::of(&judged, session.policy().mode, !session.policy().sandbox.is_off())));
    // A hook may want a person to be asked, too, but answers for nobody what is asked each time.
    let said = said.filter(|said| !judged.is_asked_each_time || !matches!(said, HookVerdict::Allow));
    let verdict = with_inquiry(verdict(&judged, said, &spec.name, session.policy().mode), inquiry.as_ref());
    if !matches!(verdict, Verdict::Ask | Verdict::AskFirst(_)) {
        return Judged { requested: requested(input, effects, verdict, planned, on_record), question: None };
    }
    let note = note(&verdict);
    match draft {
        Ok(draft) => {
            let (subject, tool) = (Subject::Call(call.id.clone()), spec.name.clone());
            let files = shown::files_where_it_runs(accesses, files, cx);
            let facts = shown::facts(&judged, accesses, &look.links.found(), cx);
            let marks = shown::marks(&judged, &places);
            let (can_last, accesses) = (settings.standing.is_some(), accesses.clone());
            let remember = judged.remember;
            let inquiry = inquiry.map(|inquiry| (inquiry, Keeper::of(cx)));
            let question =
                Unasked { subject, draft, note, tool, remember, can_last, facts, marks, accesses, files, inquiry };
            Judged { requested: requested(input, effects, verdict, planned, on_record), question: Some(question) }
        }
        // A person who says "always" to what cannot run has allowed more than was shown.
        Err(Outcome { text, .. }) => {
            let refused = Verdict::Refuse(text);
            Judged { requested: requested(input, effects, refused, planned, on_record), question: None }
        }
    }
}

/// Whether a plan may be carried out, or a person can be asked, for all that rules, mode and hooks say.
fn may_be(plan: &Plan, said: Option<&HookVerdict>, call: &ToolCall, cx: &JobContext<'_>) -> bool {
    let judged = || judged(&call.name, &plan.planned.accesses, call, cx);
    let is_allowed = |judged: Judgement| match judged.action {
        Action::Allow => true,
        Action::Ask => {
            let by_hook = matches!(said, Some(HookVerdict::Allow)) && !judged.is_asked_each_time;
            by_hook || cx.services.is_attended()
        }
        Action::Deny => false,
    };
    plan.instead.is_none() || is_allowed(judged())
}

fn instead_of(plan: Plan) -> Plan {
    match plan.instead {
        Some(instead) => *instead,
        None => plan,
    }
}

/// Whether the model has the tool; a person who asks an agent by its name needs none of the model's.
fn is_on_offer(call: &ToolCall, cx: &JobContext<'_>) -> bool {
    let session = cx.session;
    let is_taken_away = cx.memory.frames.is_taken_away(&call.name, session);
    session.is_asked_by_name(&call.id) || (!is_taken_away && session.policy().calls.enables(&call.name))
}

/// What rules and mode say of a call.
fn judged(tool: &str, accesses: &[Access], call: &ToolCall, cx: &JobContext<'_>) -> Judgement {
    let judged = cx.session.judge_with(tool, accesses, &cx.grants_of_others());
    if cx.session.is_asked_by_name(&call.id) { judged.asked_by_name() } else { judged }
}

/// Why a call of a tool is refused that is not on offer; `is_over`: no more.
fn not_there(call: &ToolCall, is_over: bool, cx: &JobContext<'_>) -> String {
    if is_over {
        return "This session is not in plan mode: there is nothing to leave, and nobody was asked.".to_owned();
    }
    let names: Vec<&str> = cx.frame().tools.iter().map(|spec| spec.name.as_str()).collect();
    format!("Tool {} not found. The tools are: {}.", call.spelling(), names.join(", "))
}

/// Who wrote a command of the user's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// The user, just now.
    Person,
    /// The template of a command that they said.
    Template,
}

/// Whether the user may run this command of their own. Who types a command is not asked about it, in no mode and by no hook;
/// what a rule forbids stays forbidden, and what is for no call is not for this one. Who says a template has not typed what stands in
/// it: what a rule wants asked is not run, and in the mode `plan` nothing that changes anything.
pub(crate) fn may_run(command: &str, author: Writer, cx: &JobContext<'_>) -> Result<(), ShellError> {
    let (session, settings) = (cx.session, &cx.services.settings);
    let tool = settings.tools.get(shell::TOOL).ok_or(ShellError::NoShell)?;
    let workspace = PathBuf::from(session.workspace());
    let files = cx.services.files_for_tools(&workspace);
    let look = look(&files, workspace, cx);
    let call = shell::user_call(&CallId::from("u"), command, false);
    let input = call.input.value().cloned().unwrap_or_default();
    let plan = catch_unwind(AssertUnwindSafe(|| tool.plan(&input, &look).map_err(|outcome| outcome.text)));
    let plan = plan.map_err(|_| ShellError::Unrunnable(PANICKED.to_owned()))?.map_err(ShellError::Unrunnable)?;
    let policy = cx.policy();
    let ask = Ask {
        tool: shell::TOOL,
        accesses: &plan.planned.accesses,
        workspace: session.workspace(),
        is_confined: !policy.sandbox.is_off(),
        reach: &policy.reach,
    };
    let judged = policy.permission.judge_in(PermissionMode::Auto, session.grants(), &ask);
    if judged.action == Action::Deny {
        return Err(ShellError::Forbidden(why_denied(&judged, shell::TOOL)));
    }
    if author == Writer::Person {
        return Ok(());
    }
    let is_planning = policy.mode == PermissionMode::Plan;
    if is_planning && policy.permission.judge_in(PermissionMode::Plan, &[], &ask).action != Action::Allow {
        let why = "in the permission mode plan only what changes nothing runs";
        return Err(ShellError::Forbidden(why.to_owned()));
    }
    let judged = policy.permission.judge_in(PermissionMode::Ask, session.grants(), &ask);
    match judged.parts.iter().filter_map(|part| part.rule.as_ref()).find(|rule| rule.action == Action::Ask) {
        Some(rule) => {
            let why = format!(
                "the rule {rule} wants it asked about, and nothing is asked about a template. Type it: !{command}"
            );
            Err(ShellError::Forbidden(why))
        }
        None => Ok(()),
    }
}

/// What asks for nothing but an answer is asked, whatever mode and rules let pass: the answer is a person's.
fn with_inquiry(verdict: Verdict, inquiry: Option<&Inquiry>) -> Verdict {
    match verdict {
        Verdict::Allow if inquiry.is_some() => Verdict::Ask,
        verdict => verdict,
    }
}

/// Why a hook wants a person to be asked, where one does.
fn note(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::AskFirst(reason) if reason.is_empty() => {
            Some("A hook wants you to be asked, and gave no reason.".to_owned())
        }
        Verdict::AskFirst(reason) => Some(format!("A hook wants you to be asked: {reason}")),
        Verdict::Ask | Verdict::Allow | Verdict::Deny(_) | Verdict::Refuse(_) => None,
    }
}

/// What the tool may look at.
pub(super) fn look(files: &Arc<dyn Files>, workspace: PathBuf, cx: &JobContext<'_>) -> Look {
    let (settings, policy) = (&cx.services.settings, cx.session.policy());
    let has_shell = settings.tools.get(shell::TOOL).is_some() && policy.calls.enables(shell::TOOL);
    Look {
        session: cx.session.id().clone(),
        files: Arc::clone(files),
        machine: Arc::clone(&cx.services.files),
        is_confined: matches!(cx.services.confinement(&workspace), Confinement::Sandbox(_)),
        has_shell: has_shell && !policy.permission.forbid(shell::TOOL),
        workspace,
        env: Arc::clone(&settings.env),
        links: Links::default(),
        firewall: cx.services.firewall.clone(),
    }
}

/// What rules, hooks and the permission mode say of a call, in the words that the model reads.
fn verdict(judged: &Judgement, said: Option<HookVerdict>, tool: &str, mode: PermissionMode) -> Verdict {
    match (judged.action, said) {
        (Action::Deny, _) if mode != PermissionMode::Plan || judged.rule.is_some() => {
            Verdict::Deny(format!("The call was not run: {}.", why_denied(judged, tool)))
        }
        (Action::Deny, _) => Verdict::Deny(format!(
            "The call was not run: in the permission mode {mode} only what changes nothing runs. Say what you would do instead."
        )),
        (_, Some(HookVerdict::Refuse(reason))) => {
            Verdict::Refuse(format!("The call was not run: a hook refused it. {reason}"))
        }
        (_, Some(HookVerdict::Ask(reason))) => Verdict::AskFirst(reason),
        (_, Some(HookVerdict::Allow)) | (Action::Allow, None) => Verdict::Allow,
        (Action::Ask, None) => Verdict::Ask,
    }
}

/// The rule that forbids a call, and which part of it.
fn why_denied(judged: &Judgement, tool: &str) -> String {
    let refused = judged.parts.iter().find(|part| part.action == Action::Deny);
    match (refused, &judged.rule) {
        (Some(part), Some(rule)) if rule.pattern.is_some() => format!("the rule {rule} forbids {}", part.named()),
        (_, Some(_)) | (None, None) => format!("a rule forbids {tool} here"),
        (Some(part), None) => format!("{}: {}", part.named(), part.why),
    }
}

impl Judged {
    /// Words the question, which may take the disk. What is recorded then, in order.
    async fn ask(self) -> Vec<Event> {
        let Self { requested, question } = self;
        let Some(unasked) = question else { return vec![requested] };
        let Unasked { subject, draft, note, tool, remember, can_last, mut facts, marks, accesses, files, .. } = unasked;
        let note = note.map(|text| QuestionBlock::Note { text });
        if let Some((mut inquiry, keeper)) = unasked.inquiry {
            if let Some(plan) = &mut inquiry.plan {
                plan.changed = matches!(requested, Event::CallRequested { author: Author::Hook, .. });
                plan.file = keeper.keep(&plan.text).await;
            }
            let question = Some(Box::new(Question::inquire(inquiry, note)));
            return vec![requested, Event::ApprovalAsked { subject, question }];
        }
        let worded = tokio::task::spawn_blocking(move || (draft.words(), shown::targets(&accesses, &*files))).await;
        // It panicked; there is still a call to ask about.
        let ((title, mut body), bound) =
            worded.unwrap_or_else(|_| ((format!("Use {tool}?"), input_of(&requested)), Vec::new()));
        for block in &mut body {
            if let QuestionBlock::Command { marks: within, .. } = block {
                within.clone_from(&marks);
            }
        }
        facts.extend(shown::hidden_characters(&body));
        body.push(QuestionBlock::Facts { facts });
        body.extend(note);
        let question = Question { bound, ..Question::may_run(title, body, remember) };
        let question = Some(Box::new(if can_last { question.lasting() } else { question }));
        vec![requested, Event::ApprovalAsked { subject, question }]
    }
}

fn input_of(requested: &Event) -> Vec<QuestionBlock> {
    match requested {
        Event::CallRequested { input: Some(input), .. } => vec![QuestionBlock::Json { json: input.to_string() }],
        _ => Vec::new(),
    }
}
