//! From a verb to what it does, by the table; and HELP, FEAT and SITE, which are made of it.

use super::state::ServerState;
use crate::table::{self, Feature, Form, Run, SITE_VERBS, SiteRun, SiteVerb, VERBS, Verb};

/// Runs a verb that may run.
pub(super) fn run(state: &mut ServerState, verb: &Verb, argument: &str) {
    match verb.run {
        Run::Command(command) => command(state, argument),
        Run::Help => help(state, argument),
        Run::Features => features(state),
        Run::Site => site(state, argument),
    }
}

/// Whether the command can run at all; else the reply says why not. Hooks are not asked about
/// what would be refused anyway, so a client without a login can start nothing by them.
pub(super) fn may_run(state: &mut ServerState, verb: &Verb, argument: &str) -> bool {
    let blank = argument.trim().is_empty();
    if !verb.is_offered(&state.settings) {
        state.reply(502, "That command is not implemented here.");
    } else if verb.login && !state.session.is_logged_in() {
        state.reply(530, "Log in first with USER and PASS.");
    } else if verb.form == Form::None && !blank {
        state.reply(501, "That command has no argument.");
    } else if verb.form == Form::Required && blank {
        state.reply(501, &format!("Syntax: {} {}", verb.name, verb.syntax));
    } else {
        return !verb.write || state.may_write();
    }
    false
}

fn help(state: &mut ServerState, argument: &str) {
    let word = argument.trim();
    if word.is_empty() {
        let offered = VERBS.iter().filter(|verb| verb.is_offered(&state.settings));
        let names: Vec<&str> = offered.map(|verb| verb.name).collect();
        let lines: Vec<String> = names
            .chunks(8)
            .map(|row| {
                row.iter().fold(String::from(" "), |line, name| line + &format!("{name:<9}"))
            })
            .map(|line| line.trim_end().to_owned())
            .collect();
        let text = format!("These commands are known:\n{}\nHELP <command>", lines.join("\n"));
        return state.reply(214, &text);
    }
    let verb = table::verb(word.as_bytes()).filter(|verb| verb.is_offered(&state.settings));
    match verb {
        Some(verb) if verb.name == "SITE" => site_help(state, ""),
        Some(verb) => {
            let text = format!("Syntax: {} {}", verb.name, verb.syntax);
            state.reply(214, &format!("{}. {}", text.trim_end(), verb.help));
        }
        None => state.reply(502, "That command is not known here."),
    }
}

fn features(state: &mut ServerState) {
    let mut text = String::from("Besides RFC 959:");
    for verb in VERBS.iter().filter(|verb| verb.is_offered(&state.settings)) {
        let line = match verb.feature {
            Feature::No => continue,
            Feature::Text(text) => text.to_owned(),
            Feature::Made(make) => make(state),
        };
        if !line.is_empty() {
            text += &format!("\n {line}");
        }
    }
    state.reply(211, &format!("{text}\nEnd"));
}

/// The words of SITE that this session may use: others are not even shown to it.
fn site_words(state: &ServerState) -> impl Iterator<Item = &'static SiteVerb> {
    let administrator = state.session.login().is_some_and(|login| login.administrator);
    SITE_VERBS.iter().filter(move |word| {
        word.is_offered(&state.settings) && (!word.administrator || administrator)
    })
}

const UNKNOWN_WORD: &str = "That word is not known: SITE HELP shows all.";

fn site(state: &mut ServerState, argument: &str) {
    let armed = state.session.shutdown_armed;
    state.session.forget_next_only();
    let (word, rest) = argument.split_once(' ').unwrap_or((argument, ""));
    let known = site_words(state).find(|known| known.name.eq_ignore_ascii_case(word));
    let Some(word) = known else { return state.reply(504, UNKNOWN_WORD) };
    if word.write && !state.may_write() {
        return;
    }
    match word.run {
        SiteRun::Help => site_help(state, rest),
        SiteRun::Command(command) => {
            state.session.shutdown_armed = armed;
            command(state, rest);
        }
    }
}

fn site_help(state: &mut ServerState, argument: &str) {
    state.session.forget_next_only();
    let asked = argument.trim();
    let lines: Vec<String> = site_words(state)
        .filter(|word| asked.is_empty() || word.name.eq_ignore_ascii_case(asked))
        .map(|word| format!(" {} {}: {}", word.name, word.syntax, word.help))
        .collect();
    if lines.is_empty() {
        return state.reply(504, UNKNOWN_WORD);
    }
    state.reply(214, &format!("These words are known:\n{}\nEnd", lines.join("\n")));
}
