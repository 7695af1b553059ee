//! System calls that no command needs, and that reach parts of the kernel in which rights have been won before.

use crate::error::SandboxError;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter, sock_filter,
};
use std::collections::BTreeMap;
use std::env::consts::ARCH;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Always refused. Mounts and namespaces; modules and other kernels; programs in the kernel; what reads or writes past the
/// file system; keys, which are the user's and not a namespace's; the machine's clock, swap and accounting.
const REFUSED: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_fanotify_init,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Namespaces that a call can ask for.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Which sockets can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// Those that a network namespace holds.
    OfOwnNetwork,
    /// Unix sockets, where somebody else judges which are connected to.
    AtPaths,
    /// None but pairs.
    None,
}

/// Holds from here on for this process and all that it starts.
pub(crate) fn apply(sockets: Sockets) -> Result<(), SandboxError> {
    let refuse = u32::try_from(libc::EPERM).unwrap_or_default();
    install(refused(sockets)?, SeccompAction::Errno(refuse))?;
    // Its flags lie in memory, where no filter can look. Programs take `clone` where it is not there.
    let absent = u32::try_from(libc::ENOSYS).unwrap_or_default();
    install(Rules::from([(libc::SYS_clone3, Vec::new())]), SeccompAction::Errno(absent))?;
    #[cfg(target_arch = "x86_64")]
    apply_filter(&without_x32()).map_err(layer)?;
    Ok(())
}

fn layer(error: impl std::fmt::Display) -> SandboxError {
    SandboxError::Layer { layer: "seccomp", error: error.to_string() }
}

fn install(rules: Rules, action: SeccompAction) -> Result<(), SandboxError> {
    let arch = ARCH.try_into().map_err(layer)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).map_err(layer)?;
    let program: BpfProgram = filter.try_into().map_err(layer)?;
    apply_filter(&program).map_err(layer)
}

fn refused(sockets: Sockets) -> Result<Rules, SandboxError> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let mut any_namespace = Vec::new();
    for bit in (0..31).map(|bit| 1_u64 << bit).filter(|bit| u64::from(NAMESPACES.unsigned_abs()) & bit != 0) {
        any_namespace.push(rule(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(bit), bit)?);
    }
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        rules.insert(call, any_namespace.clone());
    }
    rules.insert(libc::SYS_socket, refused_sockets(sockets)?);
    if sockets != Sockets::OfOwnNetwork {
        // Without a namespace of its own it sees the user's other processes: their limits would end them.
        let of_others = rule(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
        rules.insert(libc::SYS_prlimit64, vec![of_others]);
    }
    // Bytes put into a terminal's input, as if a person had typed them.
    let typed = [libc::TIOCSTI, libc::TIOCLINUX].map(|request| {
        rule(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, u64::from(u32::try_from(request).unwrap_or_default()))
    });
    rules.insert(libc::SYS_ioctl, typed.into_iter().collect::<Result<_, _>>()?);
    Ok(rules)
}

/// By their family. No rule at all refuses each.
fn refused_sockets(sockets: Sockets) -> Result<Vec<SeccompRule>, SandboxError> {
    // Those that no network namespace holds, or that only speak to the kernel.
    const OF_NONE: [libc::c_int; 7] =
        [libc::AF_VSOCK, libc::AF_PACKET, libc::AF_ALG, libc::AF_BLUETOOTH, libc::AF_CAN, libc::AF_TIPC, libc::AF_XDP];
    let family = |op, family: libc::c_int| {
        rule(0, SeccompCmpArgLen::Dword, op, u64::from(u32::try_from(family).unwrap_or_default()))
    };
    match sockets {
        Sockets::OfOwnNetwork => OF_NONE.into_iter().map(|one| family(SeccompCmpOp::Eq, one)).collect(),
        Sockets::AtPaths => Ok(vec![family(SeccompCmpOp::Ne, libc::AF_UNIX)?]),
        Sockets::None => Ok(Vec::new()),
    }
}

fn rule(argument: u8, len: SeccompCmpArgLen, op: SeccompCmpOp, value: u64) -> Result<SeccompRule, SandboxError> {
    let condition = SeccompCondition::new(argument, len, op, value).map_err(layer)?;
    SeccompRule::new(vec![condition]).map_err(layer)
}

/// The calls of x32 have numbers of their own under the same architecture: whoever uses them is killed.
#[cfg(target_arch = "x86_64")]
fn without_x32() -> BpfProgram {
    /// Of `linux/bpf_common.h`, `linux/seccomp.h` and `asm/unistd.h`.
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    let statement = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        statement(LOAD_WORD, 0, 0, 0),
        statement(JUMP_IF_AT_LEAST, 0, 1, X32),
        statement(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        statement(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
