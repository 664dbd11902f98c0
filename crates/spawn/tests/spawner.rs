//! Programs started by the real helper process.

use std::path::PathBuf;
use std::time::Duration;

use entrepot_nouns::Env;
use entrepot_spawn::{
    Allowed, Ended, Helper, How, Isolation, Program, Reach, SpawnError, Spawner, SpawnerOptions,
    Stdin, has_landlock, limits, output_pipe, pipe,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn options() -> SpawnerOptions {
    let allowed = Allowed::new(["/bin", "/usr/bin"].map(PathBuf::from)).unwrap();
    let helper = Helper::Program(env!("CARGO_BIN_EXE_entrepot-spawner").into(), Vec::new());
    SpawnerOptions { helper, ..SpawnerOptions::new(allowed) }
}

fn spawner() -> Spawner {
    Spawner::new(options(), Env::real())
}

fn program(argv: &[&str]) -> Program {
    Program::new(argv.iter().map(|item| (*item).to_owned()).collect())
}

fn shell(script: &str) -> Program {
    program(&["/bin/sh", "-c", script])
}

fn text(ended: &Ended) -> &str {
    std::str::from_utf8(&ended.stdout.bytes).unwrap()
}

async fn run(program: Program) -> Ended {
    let spawner = spawner();
    let ended = spawner.run(program).await.unwrap();
    spawner.stop().await;
    ended
}

/// Processes whose command line has `mark`.
fn alive(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(mark)).count()
}

/// Waits until no process has `mark`: a killed one is gone when its parent has seen it.
async fn all_gone(mark: &str) -> bool {
    for _ in 0..10_000 {
        if alive(mark) == 0 {
            return true;
        }
        tokio::time::timeout(Duration::from_millis(5), std::future::pending::<()>()).await.ok();
    }
    false
}

#[tokio::test]
async fn each_argument_arrives_as_it_stands() {
    let odd = ["a b", "-x", "$(id)", "'\"\\", "", "*", "line\nline", "é"];
    let mut argv = vec!["/usr/bin/printf", "[%s]"];
    argv.extend(odd);
    let ended = run(program(&argv)).await;
    assert_eq!(ended.how, How::Code(0));
    assert_eq!(text(&ended), odd.map(|item| format!("[{item}]")).concat());
}

/// Descriptors that this test inherited from its parent and that its children would inherit.
fn inherited() -> Vec<String> {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    let names = all.filter_map(|entry| entry.file_name().into_string().ok());
    let is_open = |name: &String| {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{name}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i64::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & 0o2_000_000 == 0)
    };
    names.filter(is_open).map(|name| format!("/proc/self/fd/{name}")).collect()
}

#[tokio::test]
async fn nothing_of_the_server_is_inherited() {
    let mut printed = program(&["/usr/bin/env"]);
    printed.env.push(("NAME".to_owned(), "a=b c".to_owned()));
    let ended = run(printed).await;
    let mut lines: Vec<&str> = text(&ended).lines().collect();
    lines.sort_unstable();
    let temporary = lines.pop().unwrap_or_default();
    assert!(temporary.starts_with("TMPDIR=/"), "{temporary}");
    assert_eq!(lines, ["LANG=C.UTF-8", "NAME=a=b c", "PATH=/usr/local/bin:/usr/bin:/bin"]);
    let ended = run(shell("ulimit -c; echo /proc/self/fd/*")).await;
    let mut given: Vec<String> = inherited();
    given.extend(["0", "1", "2"].map(|number| format!("/proc/self/fd/{number}")));
    let mut words = text(&ended).split_whitespace();
    assert_eq!(words.next(), Some("0"));
    let others: Vec<&str> = words.filter(|word| !given.iter().any(|it| it == word)).collect();
    assert!(others.len() <= 1, "one is the directory that the shell reads: {others:?}");
}

#[tokio::test]
async fn each_has_a_folder_of_its_own_while_it_runs() {
    let spawner = spawner();
    let mut folders = Vec::new();
    for _ in 0..2 {
        let script = "[ \"$(pwd)\" = \"$TMPDIR\" ] && stat -c %a . && ls -A && mkdir -p a/b \
                      && echo x > a/b/c && echo \"$TMPDIR\"";
        let ended = spawner.run(shell(script)).await.unwrap();
        let said = text(&ended).trim().to_owned();
        let folder = said.strip_prefix("700\n").expect("a private and empty folder").to_owned();
        assert!(!std::path::Path::new(&folder).exists(), "{folder} stays");
        folders.push(folder);
    }
    assert_ne!(folders[0], folders[1]);
    spawner.stop().await;
}

#[tokio::test]
async fn none_gains_rights_has_a_terminal_or_opens_files_without_end() {
    // What it may open counts from its first moment; that it cannot raise that, a moment later.
    let script = "ulimit -n; until [ $(ulimit -Hn) = 1024 ]; do :; done; \
                  grep NoNewPrivs: /proc/self/status";
    let ended = run(shell(script)).await;
    assert_eq!(text(&ended), "1024\nNoNewPrivs:\t1\n");
    // The fields of stat(5) behind the name: state, parent, group, session, terminal.
    let ended = run(shell("sed 's/.*) //' /proc/$$/stat; echo $PPID")).await;
    let mut lines = text(&ended).lines();
    let fields: Vec<&str> = lines.next().unwrap().split(' ').collect();
    let helper = lines.next().unwrap();
    assert_eq!((fields[1], fields[3], fields[4]), (helper, helper, "0"));
}

/// A spawner whose programs reach the system's folders and what is listed, under Landlock.
fn under_landlock(write: &std::path::Path) -> Spawner {
    let read = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/proc"].map(PathBuf::from).to_vec();
    let reach = Reach { read, write: vec![write.to_owned()] };
    let isolation = Isolation::Landlock(reach);
    Spawner::new(SpawnerOptions { isolation, ..options() }, Env::real())
}

#[tokio::test]
async fn under_landlock_a_program_reaches_what_is_listed_and_its_own_files() {
    assert!(has_landlock(), "this kernel has no Landlock: the test needs Linux 5.13 or newer");
    let folder = tempfile::tempdir().unwrap();
    let [secret, given, open] = ["secret", "given", "open"].map(|name| folder.path().join(name));
    std::fs::write(&secret, "secret").unwrap();
    std::fs::write(&given, "given").unwrap();
    std::fs::create_dir(&open).unwrap();
    let spawner = under_landlock(&open);
    let at = |path: &std::path::Path| path.display().to_string();
    let (secret, given, open) = (at(&secret), at(&given), at(&open));
    let refused = format!(
        "cat {secret}; ls {}; echo x > {secret}; rm {secret}; kill -0 {}; \
         head -c 1 /proc/{}/environ; echo x > /usr/entrepot-was-here",
        at(folder.path()),
        std::process::id(),
        std::process::id(),
    );
    let ended = spawner.run(shell(&refused)).await.unwrap();
    assert_eq!(text(&ended), "", "{}", ended.stderr.last_words(2000));
    let said = String::from_utf8_lossy(&ended.stderr.bytes).into_owned();
    let refused = said.matches("denied").count() + said.matches("not permitted").count();
    assert_eq!(refused, 7, "each was refused: {said}");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");

    let allowed = format!("cat {given} && echo x > {open}/x && echo y > $TMPDIR/y && cat y");
    let mut program = shell(&allowed);
    program.files = vec![given.into()];
    let ended = spawner.run(program).await.unwrap();
    assert_eq!(text(&ended), "giveny\n", "{}", ended.stderr.last_words(2000));
    // Of another run it is not.
    let ended = spawner.run(shell(&allowed)).await.unwrap();
    assert_eq!(ended.how, How::Code(1));
    let mut absent = shell("true");
    absent.files = vec![format!("{open}/absent").into()];
    let absent = spawner.run(absent).await;
    assert!(matches!(absent, Err(SpawnError::NotStarted { .. })), "{absent:?}");
    spawner.stop().await;
}

#[tokio::test]
async fn codes_signals_and_both_outputs_are_told() {
    let ended = run(shell("echo out; echo err >&2; exit 7")).await;
    assert_eq!(ended.how, How::Code(7));
    assert_eq!((&*ended.stdout.bytes, &*ended.stderr.bytes), (&b"out\n"[..], &b"err\n"[..]));
    assert_eq!(run(shell("kill -9 $$")).await.how, How::Signal(9));
}

#[tokio::test]
async fn a_program_reads_what_it_is_given_and_need_not() {
    let mut long = program(&["/usr/bin/wc", "-c"]);
    long.stdin = Stdin::Bytes(vec![b'x'; 1_000_000].into());
    assert_eq!(text(&run(long).await).trim(), "1000000");
    let mut deaf = program(&["/bin/true"]);
    deaf.stdin = Stdin::Bytes(vec![b'x'; 1_000_000].into());
    assert_eq!(run(deaf).await.how, How::Code(0));
    assert_eq!(text(&run(program(&["/usr/bin/wc", "-c"])).await).trim(), "0");

    let (mut sender, stdin) = pipe().unwrap();
    let mut piped = program(&["/usr/bin/sha256sum"]);
    piped.stdin = stdin;
    let spawner = spawner();
    let write = async move {
        sender.write_all(b"abc").await.unwrap();
        drop(sender);
    };
    let (ended, ()) = tokio::join!(spawner.run(piped), write);
    assert!(text(&ended.unwrap()).starts_with("ba7816bf"));
    spawner.stop().await;
}

#[tokio::test]
async fn several_pipes_at_a_time_reach_their_own_program() {
    let spawner = spawner();
    let runs = (0..40).map(|number| {
        let spawner = spawner.clone();
        tokio::spawn(async move {
            let mut cat = program(&["/bin/cat"]);
            cat.stdin = Stdin::Bytes(format!("{number}").into_bytes().into());
            text(&spawner.run(cat).await.unwrap()) == number.to_string()
        })
    });
    for run in runs.collect::<Vec<_>>() {
        assert!(run.await.unwrap());
    }
    spawner.stop().await;
}

#[tokio::test]
async fn a_program_that_hangs_is_killed_with_all_it_started() {
    // The second one wants to hear nothing of its end.
    for (number, deaf) in [(11, ""), (17, "trap '' TERM INT HUP QUIT; ")] {
        let mark = mark(number);
        let mut hangs = shell(&format!("{deaf}sleep {mark} & sleep {mark}"));
        hangs.limit = Duration::from_millis(300);
        let ended = run(hangs).await;
        assert_eq!(ended.how, How::TimeLimit, "{deaf}");
        assert!(ended.duration < Duration::from_secs(5), "{ended:?}");
        assert!(all_gone(&mark).await, "{deaf}");
    }
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it() {
    let mark = mark(12);
    let ended = run(shell(&format!("sleep {mark} & echo done"))).await;
    assert_eq!((ended.how, text(&ended)), (How::Code(0), "done\n"));
    assert!(all_gone(&mark).await);
}

#[tokio::test]
async fn a_program_nobody_waits_for_is_killed() {
    let mark = mark(13);
    let spawner = spawner();
    let waiting = tokio::spawn({
        let (spawner, sleeper) = (spawner.clone(), program(&["/bin/sleep", &mark]));
        async move { spawner.run(sleeper).await }
    });
    while alive(&mark) == 0 {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    assert!(all_gone(&mark).await);
    spawner.stop().await;
}

/// A mark for the processes of one test, of all that run on this machine.
fn mark(of: u32) -> String {
    format!("3123.{:07}{of:02}", std::process::id())
}

/// A part of a script that starts a process and goes on when that is there; `start` says how,
/// around what it does. It holds the standard output of the script open.
fn starts(start: &str, mark: &str) -> String {
    let start = start.replace("BODY", &format!("echo >up; sleep {mark}; :"));
    format!("mkfifo up; {start} read x <up; rm up; ")
}

/// It leaves the group, the session and the parent.
const FLEES: &str = "(setsid sh -c 'BODY' &);";

/// A script that may take as long as it likes, on a machine that has other things to do.
fn patient(script: &str) -> Program {
    Program { limit: Duration::from_secs(900), ..shell(script) }
}

#[tokio::test]
async fn what_leaves_its_session_ends_with_its_program() {
    let mark = mark(1);
    let deaf = "(setsid sh -c 'trap \"\" TERM HUP INT QUIT; BODY' &);";
    // While its parent lives nobody asks whose it is.
    let unmarked = "setsid sh -c 'prlimit --pid $$ --locks=7:7; BODY' &";
    for start in [FLEES, deaf, unmarked] {
        let starts = starts(start, &mark);
        let ended = run(patient(&format!("{starts} echo done"))).await;
        assert_eq!((ended.how, text(&ended)), (How::Code(0), "done\n"), "{start}");
        assert_eq!(alive(&mark), 0, "{start}");

        let mut hangs = shell(&format!("{starts} trap '' TERM; sleep 3123; :"));
        hangs.limit = Duration::from_secs(1);
        let ended = run(hangs).await;
        assert_eq!((ended.how, alive(&mark)), (How::TimeLimit, 0), "{start}");

        let flood = run(patient(&format!("{starts} yes"))).await;
        assert_eq!((flood.how, alive(&mark)), (How::OutputLimit, 0), "{start}");
    }
}

#[tokio::test]
async fn what_left_its_session_ends_with_a_program_nobody_waits_for() {
    let (mark, spawner) = (mark(2), spawner());
    for ends_with_the_spawner in [false, true] {
        let waiting = tokio::spawn({
            let (spawner, script) = (spawner.clone(), starts(FLEES, &mark) + "exec sleep 3123");
            async move { spawner.run(patient(&script)).await }
        });
        while alive(&mark) == 0 {
            tokio::task::yield_now().await;
        }
        if ends_with_the_spawner {
            spawner.stop().await;
            assert_eq!(alive(&mark), 0);
        }
        waiting.abort();
        assert!(all_gone(&mark).await);
    }
}

#[tokio::test]
async fn who_gave_up_the_mark_of_the_run_is_killed_while_the_program_goes_on() {
    // Raised it can be as root, at most.
    for (number, limits, codes) in [(3, "7:7", 0..1), (4, "unlimited:unlimited", 0..2)] {
        let mark = mark(number);
        // It is lowered before the one that flees is an orphan: whose that is is asked once.
        let flee = format!(
            "prlimit --pid $$ --locks={limits} && {{ setsid sh -c \"sleep {mark}; :\" & }}"
        );
        // The pipe ends when nobody has it open any more.
        let script = format!("mkfifo up; sh -c '{flee}' >up & cat up; wait $!");
        let ended = run(patient(&script)).await;
        assert!(matches!(ended.how, How::Code(code) if codes.contains(&code)), "{ended:?}");
        assert_eq!(alive(&mark), 0, "{limits}");
    }
}

#[tokio::test]
async fn what_a_running_program_left_and_has_ended_is_waited_for() {
    let script = "mkfifo up; (setsid sh -c 'echo $$ >up' &); read pid <up; \
                  while [ -e /proc/$pid ]; do :; done";
    assert_eq!(run(patient(script)).await.how, How::Code(0));
}

/// Programs of both helpers that go on, each with a process in a session of its own, while `work`
/// is done, and end well.
async fn beside(spawner: &Spawner, work: impl Future<Output = ()>) {
    let script = "mkfifo up down; \
                  (setsid sh -c 'echo >up; read x <down; echo $x' &); \
                  read x <up; echo up; read x; echo $x >down; cat";
    let mut runs = Vec::new();
    for number in 0..limits::HELPERS {
        let (sender, stdin) = pipe().unwrap();
        let (mut output, stdout) = output_pipe().unwrap();
        let program = Program { stdin, stdout, ..patient(script) };
        let spawner = spawner.clone();
        let run = tokio::spawn(async move { spawner.run(program).await });
        expect(&mut output, "up\n").await;
        runs.push((number, sender, output, run));
    }
    work.await;
    for (number, mut sender, mut output, run) in runs {
        sender.write_all(format!("still {number}\n").as_bytes()).await.unwrap();
        expect(&mut output, &format!("still {number}\n")).await;
        drop(sender);
        assert_eq!(run.await.unwrap().unwrap().how, How::Code(0));
    }
}

async fn expect(output: &mut tokio::net::unix::pipe::Receiver, text: &str) {
    let mut said = vec![0; text.len()];
    output.read_exact(&mut said).await.unwrap();
    assert_eq!(said, text.as_bytes());
}

#[tokio::test]
async fn a_program_with_too_many_processes_is_killed_and_no_other_one() {
    let spawner = spawner();
    // As its children; in sessions of their own; and as nobody's children in such sessions. Each
    // time they are no more than sixty.
    for (number, start) in [(5, "sleep M &"), (6, "setsid sleep M &"), (7, "(setsid sleep M &)")] {
        let mark = mark(number);
        let start = start.replace('M', &mark);
        let script = format!("for i in $(seq 60); do {start} done; sleep {mark}; :");
        let flock = || Program { processes: 24, ..patient(&script) };
        beside(&spawner, async {
            // One for each of the helpers.
            let (first, second) = tokio::join!(spawner.run(flock()), spawner.run(flock()));
            assert_eq!(first.unwrap().how, How::ProcessLimit, "{start}");
            assert_eq!(second.unwrap().how, How::ProcessLimit, "{start}");
            assert_eq!(alive(&mark), 0, "{start}");
        })
        .await;
    }
    let few = Program { processes: 24, ..patient("for i in $(seq 20); do sleep 0 & done; wait") };
    assert_eq!(spawner.run(few).await.unwrap().how, How::Code(0));
    spawner.stop().await;
}

#[tokio::test]
async fn who_starts_another_one_and_ends_again_and_again_is_caught() {
    let (mark, spawner) = (mark(8), spawner());
    // Each starts its successor in a session of its own, and ends at once.
    let hops = "H='[ $N -gt 0 ] || exit; N=$((N-1)); setsid sh -c \"$H\" MARK &'; N=20000; \
                export H N; for i in 1 2 3 4; do sh -c \"$H\" MARK; done"
        .replace("MARK", &mark);
    beside(&spawner, async {
        for end in ["exit 3", "prlimit --pid $$ --locks=9:9; sh -c \"$H\" MARK; exit 3"] {
            let end = end.replace("MARK", &mark);
            let ended = spawner.run(patient(&format!("{hops}; {end}"))).await.unwrap();
            assert_eq!((ended.how, alive(&mark)), (How::Code(3), 0), "{end}");
        }
    })
    .await;
    spawner.stop().await;
}

#[tokio::test]
async fn the_end_of_the_spawner_ends_what_runs() {
    let mark = mark(14);
    let spawner = spawner();
    let waiting = tokio::spawn({
        let (spawner, sleeper) = (spawner.clone(), program(&["/bin/sleep", &mark]));
        async move { spawner.run(sleeper).await }
    });
    while alive(&mark) == 0 {
        tokio::task::yield_now().await;
    }
    spawner.stop().await;
    assert_eq!(waiting.await.unwrap(), Err(SpawnError::Lost));
    assert!(all_gone(&mark).await);
    let after = spawner.run(program(&["/bin/true"])).await;
    assert!(matches!(after, Err(SpawnError::Unavailable(_))), "{after:?}");
}

#[tokio::test]
async fn a_flood_of_output_is_cut_and_an_endless_one_killed() {
    let ended = run(shell("head -c 300000 /dev/zero; printf end")).await;
    assert_eq!(ended.how, How::Code(0));
    assert_eq!(ended.stdout.bytes.len(), limits::OUTPUT_KEPT);
    assert_eq!(ended.stdout.dropped, 300_003 - limits::OUTPUT_KEPT as u64);
    assert!(ended.stdout.bytes.ends_with(b"\0end"));
    let ended = run(program(&["/usr/bin/yes"])).await;
    assert_eq!(ended.how, How::OutputLimit);
    assert_eq!(ended.stdout.bytes.len(), limits::OUTPUT_KEPT);
}

#[tokio::test]
async fn memory_is_limited_from_the_first_instruction() {
    let mut shown = shell("ulimit -v");
    shown.memory_bytes = 512 << 20;
    assert_eq!(text(&run(shown).await), "524288\n");
    let mut greedy = program(&["/usr/bin/head", "-c", "1", "/dev/zero"]);
    greedy.memory_bytes = 64 << 20;
    assert_eq!(run(greedy).await.how, How::Code(0));
    let mut greedy = program(&["/usr/bin/sort", "-S", "800M", "/dev/zero"]);
    greedy.memory_bytes = 128 << 20;
    greedy.limit = Duration::from_secs(20);
    let ended = run(greedy).await;
    assert!(!matches!(ended.how, How::Code(0) | How::TimeLimit), "{ended:?}");
}

#[tokio::test]
async fn what_is_not_allowed_or_not_there_is_said() {
    let spawner = spawner();
    for path in ["/usr/sbin/nologin", "true", "/bin/../usr/sbin/nologin", ""] {
        let refused = spawner.run(program(&[path])).await;
        assert_eq!(refused, Err(SpawnError::NotAllowed(path.to_owned())));
    }
    let absent = spawner.run(program(&["/bin/entrepot-has-no-such"])).await;
    assert!(matches!(&absent, Err(SpawnError::NotStarted { why, .. }) if why.contains("No such")));
    let long = "x".repeat(300_000);
    let long = spawner.run(program(&["/bin/true", &long])).await;
    assert!(matches!(long, Err(SpawnError::NotStarted { .. })), "{long:?}");
    let zero = spawner.run(program(&["/bin/true", "a\0b"])).await;
    assert!(matches!(zero, Err(SpawnError::NotStarted { .. })), "{zero:?}");
    spawner.stop().await;
}

#[tokio::test]
async fn a_helper_that_was_killed_is_replaced() {
    let spawner = spawner();
    // The parent of what runs is the helper.
    let helper = async || {
        let ended = spawner.run(shell("echo $PPID")).await.unwrap();
        text(&ended).trim().parse::<i32>().unwrap()
    };
    let (first, second) = (helper().await, helper().await);
    assert_ne!(first, second, "there are two");
    // Nobody kills these, so they end by themselves soon.
    let mark = mark(15).replace("3123.", "31.");
    let lost: Vec<_> = (0..2)
        .map(|_| {
            let (spawner, sleeper) = (spawner.clone(), program(&["/bin/sleep", &mark]));
            tokio::spawn(async move { spawner.run(sleeper).await })
        })
        .collect();
    while alive(&mark) < 2 {
        tokio::task::yield_now().await;
    }
    for pid in [first, second] {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    for lost in lost {
        assert_eq!(lost.await.unwrap(), Err(SpawnError::Lost));
    }
    let third = helper().await;
    assert!(third != first && third != second);
    spawner.stop().await;
}

#[tokio::test]
async fn without_a_helper_nothing_runs_and_the_reason_is_said() {
    for (program_path, arguments) in
        [("/bin/entrepot-has-no-such", vec![]), ("/bin/false", vec![]), ("/bin/sleep", vec!["0"])]
    {
        let helper =
            Helper::Program(program_path.into(), arguments.into_iter().map(Into::into).collect());
        let spawner = Spawner::new(SpawnerOptions { helper, ..options() }, Env::real());
        for _ in 0..6 {
            let none = spawner.run(program(&["/bin/true"])).await;
            assert!(
                matches!(none, Err(SpawnError::Unavailable(_) | SpawnError::Lost)),
                "{program_path}: {none:?}"
            );
        }
        spawner.stop().await;
    }
}

#[tokio::test]
async fn too_many_are_refused_at_once() {
    let limited = SpawnerOptions { children: 1, queue: 1, ..options() };
    let spawner = Spawner::new(limited, Env::real());
    let mark = mark(16);
    let first = tokio::spawn({
        let (spawner, sleeper) = (spawner.clone(), program(&["/bin/sleep", &mark]));
        async move { spawner.run(sleeper).await }
    });
    while alive(&mark) == 0 {
        tokio::task::yield_now().await;
    }
    let (second, third) = tokio::join!(
        biased;
        tokio::time::timeout(Duration::from_secs(20), spawner.run(program(&["/bin/true"]))),
        async {
            let third = spawner.run(program(&["/bin/true"])).await;
            first.abort();
            third
        },
    );
    assert_eq!(second.unwrap().unwrap().how, How::Code(0));
    assert_eq!(third, Err(SpawnError::Busy));
    spawner.stop().await;
}
