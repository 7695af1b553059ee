//! The tools of a session, and the one list of the tools that come with Piton. Here the names and field names that a
//! model writes become the tools' own.

use crate::ask_user::AskUser;
use crate::bash::Bash;
use crate::edit::Edit;
use crate::exit_plan::ExitPlan;
use crate::glob::Glob;
use crate::grep::Grep;
use crate::list::List;
use crate::patch::ApplyPatch;
use crate::read::Read;
use crate::server_tools::{self, Call, ReadResource, Search, Told, called, fitting, own_input, stands_in_frame};
use crate::servers::{Pin, Servers};
use crate::tasks::{BashKill, BashOutput};
use crate::todo::Todo;
use crate::tool::Tool;
use crate::write::Write;
use piton_core::call::{CallInput, ToolSpec};
use piton_core::message::{Part, ToolCall};
use serde_json::Value;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The tools of a session, sorted by name.
#[derive(Clone)]
pub struct ToolSet {
    tools: Vec<Arc<dyn Tool>>,
    specs: Arc<[ToolSpec]>,
    /// The MCP servers whose tools can be called besides, and what is said of them in the first request.
    servers: Option<(Arc<dyn Servers>, Told)>,
}

impl ToolSet {
    /// The tools that come with Piton. This is the only list of them.
    pub fn builtin() -> Self {
        Self::of([
            Arc::new(ApplyPatch) as Arc<dyn Tool>,
            Arc::new(AskUser),
            Arc::new(ExitPlan),
            Arc::new(Bash),
            Arc::new(BashKill),
            Arc::new(BashOutput),
            Arc::new(Edit),
            Arc::new(Glob),
            Arc::new(Grep),
            Arc::new(List),
            Arc::new(Read),
            Arc::new(Todo),
            Arc::new(Write),
        ])
    }

    /// No tools at all.
    pub fn empty() -> Self {
        Self::of([])
    }

    /// These tools and one more; it replaces one of the same name.
    pub fn with(self, tool: Arc<dyn Tool>) -> Self {
        let spec = tool.spec();
        let mut both: Vec<_> = self.specs.iter().cloned().zip(self.tools).collect();
        both.retain(|(other, _)| other.name != spec.name);
        both.push((spec, tool));
        Self::declared(both, self.servers)
    }

    /// These tools but the one of this name.
    pub fn without(self, name: &str) -> Self {
        let mut both: Vec<_> = self.specs.iter().cloned().zip(self.tools).collect();
        both.retain(|(other, _)| other.name != name);
        Self::declared(both, self.servers)
    }

    /// These tools, those that find and call the tools of these servers, and the tools that stand in the first request. What is
    /// declared from here on is the same however the servers change.
    pub fn with_servers(self, servers: Arc<dyn Servers>) -> Self {
        let known = servers.servers();
        if known.is_empty() {
            return self;
        }
        let in_frame = stands_in_frame(&known);
        let of_servers = known.iter().filter(|server| in_frame.contains(&server.name)).flat_map(|server| {
            let tools = server.tools.iter().filter(|tool| tool.pin == Pin::Same);
            tools.filter_map(|tool| server_tools::tool(&tool.name, &servers)).collect::<Vec<_>>()
        });
        let own = self
            .with(Arc::new(Search::new(Arc::clone(&servers))))
            .with(Arc::new(Call::new(Arc::clone(&servers))))
            .with(Arc::new(ReadResource::new(Arc::clone(&servers))));
        let all = of_servers.fold(own, |tools, tool| tools.with(Arc::new(tool)));
        Self { servers: Some((servers, Told::at_start(&known))), ..all }
    }

    /// These tools, and of the tools of servers those that are named, known and accepted, as far as there is room. They are declared
    /// from here on.
    #[must_use]
    pub fn with_used<'n>(self, names: impl Iterator<Item = &'n str>) -> Self {
        let Some(servers) = self.servers().map(Arc::clone) else { return self };
        let fitting = fitting(names, &servers.servers(), |name| self.specs.iter().any(|spec| spec.name == name));
        let tools = fitting.iter().filter_map(|name| server_tools::tool(name, &servers));
        tools.fold(self, |all, tool| all.with(Arc::new(tool)))
    }

    /// What the first request says of them.
    pub fn told_of_servers(&self) -> Told {
        self.servers.as_ref().map(|(_, told)| told.clone()).unwrap_or_default()
    }

    /// The servers whose tools can be called.
    pub fn servers(&self) -> Option<&Arc<dyn Servers>> {
        self.servers.as_ref().map(|(servers, _)| servers)
    }

    /// The tool of this name; `READ` and `Read` mean `read` where there is no such tool.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let own = self.position(name).and_then(|at| self.tools.get(at)).cloned();
        own.or_else(|| Some(Arc::new(server_tools::tool(name, self.servers()?)?)))
    }

    /// The tool of this name, and what it declares.
    pub fn find(&self, name: &str) -> Option<(ToolSpec, Arc<dyn Tool>)> {
        match self.position(name) {
            Some(at) => Some((self.specs.get(at)?.clone(), self.tools.get(at)?.clone())),
            None => self.get(name).map(|tool| (tool.spec(), tool)),
        }
    }

    /// Calls every tool in a reply by its own name, whatever the model's spelling. Everybody after this goes by it:
    /// rules, hooks, grants, whoever draws the call.
    pub fn name_calls(&self, parts: &mut [Part]) {
        for part in parts {
            if let Part::ToolCall(call) = part {
                self.name_call(call);
            }
        }
    }

    /// A call by its tool's own name and in its own field names. Calls of journals before version 4 have neither.
    pub fn understand(&self, call: &ToolCall) -> ToolCall {
        let mut call = call.clone();
        self.name_call(&mut call);
        if let Some(own) = self.servers().and_then(|servers| own_input(&call, &**servers)) {
            call.input = own;
        }
        if let CallInput::Json(input) = &mut call.input {
            *input = self.canonical(&call.name, input.take());
        }
        call
    }

    /// An input in the field names of the tool of this name. Over one at which the tool panics, and of no tool, it is as it was.
    pub fn canonical(&self, name: &str, input: Value) -> Value {
        let Some(tool) = self.get(name) else { return input };
        let own = input.clone();
        catch_unwind(AssertUnwindSafe(|| tool.canonical(own))).unwrap_or(input)
    }

    fn name_call(&self, call: &mut ToolCall) {
        if let Some(spec) = self.position(&call.name).and_then(|at| self.specs.get(at)) {
            call.rename(&spec.name);
        }
        if let Some(name) = self.servers().and_then(|servers| called(call, &**servers)) {
            call.rename(&name);
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        let exact = self.specs.binary_search_by(|spec| spec.name.as_str().cmp(name)).ok();
        exact.or_else(|| self.specs.iter().position(|spec| spec.name.eq_ignore_ascii_case(name)))
    }

    /// What the tools declare, sorted by name: the same bytes at every step, so that providers can cache them.
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        self.specs.clone()
    }

    fn of(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        Self::declared(tools.into_iter().map(|tool| (tool.spec(), tool)).collect(), None)
    }

    fn declared(mut both: Vec<(ToolSpec, Arc<dyn Tool>)>, servers: Option<(Arc<dyn Servers>, Told)>) -> Self {
        both.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        let (specs, tools): (Vec<_>, Vec<_>) = both.into_iter().unzip();
        Self { tools, specs: specs.into(), servers }
    }
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.specs.iter().map(|spec| &spec.name)).finish()
    }
}
