//! Lists of system calls, by what they do.

#[allow(clippy::wildcard_imports, reason = "names of the list")]
use libc::*;

/// What any configuration may call.
#[rustfmt::skip]
pub(super) const ALWAYS: &[c_long] = &[
    // Open files.
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv, SYS_pwritev, SYS_preadv2,
    SYS_pwritev2, SYS_lseek, SYS_splice, SYS_tee, SYS_sendfile, SYS_copy_file_range, SYS_fsync, SYS_fdatasync,
    SYS_sync_file_range, SYS_fadvise64, SYS_ftruncate, SYS_fallocate, SYS_flock, SYS_fcntl, SYS_dup, SYS_dup3,
    SYS_close, SYS_close_range, SYS_fstat, SYS_fstatfs, SYS_pipe2, SYS_memfd_create,
    // Files by name: landlock says which. It does not restrict chmod(2) and utime(2), so they are not here.
    SYS_openat, SYS_openat2, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_faccessat, SYS_faccessat2, SYS_readlinkat,
    SYS_getdents64, SYS_getcwd, SYS_mkdirat, SYS_unlinkat, SYS_renameat, SYS_renameat2, SYS_truncate,
    SYS_umask,
    // Memory.
    SYS_mmap, SYS_mprotect, SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk, SYS_mlock, SYS_mlock2, SYS_munlock,
    SYS_mlockall, SYS_munlockall, SYS_mincore, SYS_msync, SYS_membarrier, SYS_mbind, SYS_get_mempolicy,
    SYS_set_mempolicy, SYS_move_pages, SYS_pkey_alloc, SYS_pkey_free, SYS_pkey_mprotect,
    // Threads and signals; tgkill, kill, clone and prlimit64 have conditions.
    SYS_futex, SYS_set_robust_list, SYS_get_robust_list, SYS_set_tid_address, SYS_rseq, SYS_exit, SYS_exit_group,
    SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_setaffinity, SYS_sched_getparam, SYS_sched_getscheduler,
    SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_sched_getattr, SYS_getpriority, SYS_getcpu,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait, SYS_sigaltstack, SYS_restart_syscall, SYS_prctl,
    // Children that were started before.
    SYS_wait4, SYS_waitid,
    // Events and time.
    SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_ppoll, SYS_pselect6, SYS_eventfd2,
    SYS_signalfd4, SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime, SYS_nanosleep, SYS_clock_nanosleep,
    SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday, SYS_getitimer, SYS_setitimer, SYS_times,
    // Questions.
    SYS_getpid, SYS_gettid, SYS_getppid, SYS_getpgid, SYS_getsid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid,
    SYS_getresuid, SYS_getresgid, SYS_getgroups, SYS_capget, SYS_uname, SYS_sysinfo, SYS_getrlimit, SYS_getrusage,
    SYS_getrandom,
    // Open sockets; which ones may be opened has conditions, and connect(2) is for those who need it.
    SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_shutdown, SYS_getsockname,
    SYS_getpeername, SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_sendmmsg, SYS_recvmmsg,
    SYS_setsockopt, SYS_getsockopt,
    // The same by older names.
    #[cfg(target_arch = "x86_64")] SYS_open,
    #[cfg(target_arch = "x86_64")] SYS_creat,
    #[cfg(target_arch = "x86_64")] SYS_stat,
    #[cfg(target_arch = "x86_64")] SYS_lstat,
    #[cfg(target_arch = "x86_64")] SYS_access,
    #[cfg(target_arch = "x86_64")] SYS_readlink,
    #[cfg(target_arch = "x86_64")] SYS_getdents,
    #[cfg(target_arch = "x86_64")] SYS_mkdir,
    #[cfg(target_arch = "x86_64")] SYS_rmdir,
    #[cfg(target_arch = "x86_64")] SYS_unlink,
    #[cfg(target_arch = "x86_64")] SYS_rename,
    #[cfg(target_arch = "x86_64")] SYS_pipe,
    #[cfg(target_arch = "x86_64")] SYS_dup2,
    #[cfg(target_arch = "x86_64")] SYS_poll,
    #[cfg(target_arch = "x86_64")] SYS_select,
    #[cfg(target_arch = "x86_64")] SYS_epoll_create,
    #[cfg(target_arch = "x86_64")] SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")] SYS_eventfd,
    #[cfg(target_arch = "x86_64")] SYS_signalfd,
    #[cfg(target_arch = "x86_64")] SYS_alarm,
    #[cfg(target_arch = "x86_64")] SYS_pause,
    #[cfg(target_arch = "x86_64")] SYS_time,
    #[cfg(target_arch = "x86_64")] SYS_getpgrp,
];

/// What starts a program, and what the programs call that compress files: they have the same filter. Signals to other
/// processes are not among it, not even to those that were started.
#[rustfmt::skip]
pub(super) const FOR_PROGRAMS: &[c_long] = &[
    SYS_execve, SYS_chdir, SYS_fchdir, SYS_setpgid, SYS_setsid, SYS_fchmod, SYS_fchmodat, SYS_fchown,
    SYS_fchownat, SYS_utimensat, SYS_readahead,
    SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self,
    #[cfg(target_arch = "x86_64")] SYS_vfork,
    #[cfg(target_arch = "x86_64")] SYS_fork,
    #[cfg(target_arch = "x86_64")] SYS_chmod,
    #[cfg(target_arch = "x86_64")] SYS_chown,
    #[cfg(target_arch = "x86_64")] SYS_utime,
    #[cfg(target_arch = "x86_64")] SYS_utimes,
    #[cfg(target_arch = "x86_64")] SYS_futimesat,
    #[cfg(target_arch = "x86_64")] SYS_arch_prctl,
];

/// What no element can need.
#[rustfmt::skip]
pub(super) const NEVER: &[c_long] = &[
    // The machine.
    SYS_reboot, SYS_kexec_load, SYS_kexec_file_load, SYS_init_module, SYS_finit_module, SYS_delete_module,
    SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, SYS_syslog, SYS_sethostname, SYS_setdomainname, SYS_vhangup,
    SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex,
    // Mounts and namespaces.
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsconfig,
    SYS_fsmount, SYS_fspick, SYS_mount_setattr, SYS_unshare, SYS_setns, SYS_open_by_handle_at,
    SYS_name_to_handle_at, SYS_fanotify_init,
    // Other processes.
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_pidfd_getfd, SYS_userfaultfd,
    // Keys, credentials, personalities.
    SYS_add_key, SYS_request_key, SYS_keyctl, SYS_personality, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid,
    SYS_setresuid, SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_setgroups,
    #[cfg(target_arch = "x86_64")] SYS_iopl,
    #[cfg(target_arch = "x86_64")] SYS_ioperm,
    #[cfg(target_arch = "x86_64")] SYS_modify_ldt,
];
