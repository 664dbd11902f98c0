//! What rules may be.

use serde_json::json;

use super::*;

fn field(when: &serde_json::Value, steps: &serde_json::Value) -> Result<(), String> {
    let rule = json!({"name": "r", "when": when, "do": steps});
    let rule: Rule = serde_json::from_value(rule).map_err(|error| error.to_string())?;
    rule.check().map_err(|error| error.field)
}

#[test]
fn steps_that_cannot_be_are_named_by_their_field() {
    let before = json!({"before": ["ftp DELE"]});
    let after = json!({"after": ["ftp STOR"]});
    let event = json!({"event": "file.uploaded"});
    let cron = json!({"cron": "0 3 * * *"});
    let call = json!({"call": {"parameters": {"day": {}}}});
    let watch = json!({"watch": {"endpoint": "e", "path": "/out"}});
    let refuse = |code: u16, text: &str| json!({"refuse": {"code": code, "text": text}});
    let exec = |more: serde_json::Value| {
        let mut exec = json!({"argv": ["/bin/scan", "{path}"]});
        exec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "exec": exec })
    };
    let wait = || exec(json!({"reply": "wait"}));
    for good in [
        (&before, json!([refuse(550, "No.")])),
        (&before, json!([exec(json!({"failure_code": 421})), refuse(450, "No.")])),
        (&after, json!([wait(), exec(json!({"reply": "wait", "failure_code": 421}))])),
        (&after, json!([exec(json!({})), {"delete": {}}])),
        (&event, json!([exec(json!({"stdin": "file"}))])),
        (&cron, json!([exec(json!({}))])),
        (&call, json!([exec(json!({}))])),
        (&watch, json!([{"deliver": {"endpoint": "e"}}, {"delete": {}}])),
    ] {
        assert_eq!(field(good.0, &good.1), Ok(()), "{}", good.1);
    }
    for (when, steps, wrong) in [
        (&before, json!([refuse(200, "No.")]), "do.0.refuse.code"),
        (&before, json!([refuse(600, "No.")]), "do.0.refuse.code"),
        (&before, json!([refuse(550, "")]), "do.0.refuse.text"),
        (&before, json!([refuse(550, "No.\r\n230 Yes")]), "do.0.refuse.text"),
        (&before, json!([refuse(550, "No."), exec(json!({}))]), "do.0.refuse"),
        (&before, json!([{"delete": {}}]), "do.0"),
        (&before, json!([exec(json!({"stdin": "file"}))]), "do.0.exec.stdin"),
        (&after, json!([refuse(550, "No.")]), "do.0.refuse"),
        (&after, json!([wait(), exec(json!({}))]), "do.1.exec.reply"),
        (&after, json!([wait(), {"delete": {}}]), "do.1"),
        (&event, json!([wait()]), "do.0.exec.reply"),
        (&event, json!([refuse(550, "No.")]), "do.0.refuse"),
        (&event, json!([exec(json!({"failure_code": 421}))]), "do.0.exec.failure_code"),
        (&event, json!([exec(json!({"argv": ["scan"]}))]), "do.0.exec.argv"),
        (&event, json!([exec(json!({"argv": []}))]), "do.0.exec.argv"),
        (&event, json!([exec(json!({"argv": ["/bin/{name}"]}))]), "do.0.exec.argv"),
        (&event, json!([exec(json!({"env": {"A=B": "x"}}))]), "do.0.exec.env"),
        (&event, json!([exec(json!({"timeout_seconds": 0}))]), "do.0.exec.timeout_seconds"),
        (&json!({"before": []}), json!([refuse(550, "No.")]), "when"),
        (&cron, json!([wait()]), "do.0.exec.reply"),
        (&cron, json!([exec(json!({"stdin": "file"}))]), "do.0.exec.stdin"),
        (&cron, json!([{"deliver": {"endpoint": "e"}}]), "do.0.deliver"),
        (&cron, json!([{"move": {"to": "/a"}}]), "do.0.move"),
        (&cron, json!([{"delete": {}}]), "do.0.delete.path"),
        (&cron, json!([{"delete": {"path": "/a"}}]), "do.0.delete"),
        (&cron, json!([refuse(550, "No.")]), "do.0.refuse"),
        (&watch, json!([wait()]), "do.0.exec.reply"),
        (&call, json!([exec(json!({"stdin": "file"}))]), "do.0.exec.stdin"),
        (&call, json!([wait()]), "do.0.exec.reply"),
        (&call, json!([{"deliver": {"endpoint": "e"}}]), "do.0.deliver"),
        (&call, json!([{"delete": {}}]), "do.0.delete.path"),
        (
            &json!({"call": {"parameters": {"p": {"pattern": "("}}}}),
            json!([exec(json!({}))]),
            "when.call.parameters.p.pattern",
        ),
    ] {
        assert_eq!(field(when, &steps), Err(wrong.to_owned()), "{steps}");
    }
    assert!(field(&json!({"before": ["DELE"]}), &json!([refuse(550, "No.")])).is_err());
}

#[test]
fn a_web_hook_brings_no_file_and_waits_for_no_program() {
    let hook = json!({"hook": {"keys": ["k"]}});
    let exec = |more: serde_json::Value| {
        let mut exec = json!({"argv": ["/bin/true"]});
        exec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "exec": exec })
    };
    let good = json!([exec(json!({})), {"webhook": {"endpoint": "e"}}]);
    assert_eq!(field(&hook, &good), Ok(()));
    let none = json!({"hook": {"keys": []}});
    for (when, steps, wrong) in [
        (&hook, json!([exec(json!({"stdin": "file"}))]), "do.0.exec.stdin"),
        (&hook, json!([exec(json!({"reply": "wait"}))]), "do.0.exec.reply"),
        (&hook, json!([{"deliver": {"endpoint": "e"}}]), "do.0.deliver"),
        (&none, json!([exec(json!({}))]), "when.hook.keys"),
    ] {
        assert_eq!(field(when, &steps), Err(wrong.to_owned()), "{steps}");
    }
}

fn doing(steps: &serde_json::Value) -> Rule {
    let rule = json!({"name": "r", "when": {"event": "file.uploaded"}, "do": steps});
    serde_json::from_value(rule).unwrap()
}

#[test]
fn a_job_moves_only_to_a_document_that_has_what_it_did() {
    let deliver = json!({"deliver": {"endpoint": "e"}});
    let named = json!({"name": "send", "deliver": {"endpoint": "e"}});
    let aside = json!({"move": {"to": "/done/{name}"}});
    let old = doing(&json!([named, aside]));
    for (recorded, new, flaw) in [
        (vec!["send", "do.1"], json!([named, aside]), None),
        (vec!["send"], json!([deliver, deliver, named]), None),
        (vec![], json!([aside]), None),
        (vec!["send"], json!([aside]), Some("'send', a 'deliver', is not there any more")),
        (vec!["do.1"], json!([named, deliver]), Some("'do.1' was 'move' and is 'deliver'")),
        (vec!["do.1"], json!([named, deliver, aside]), Some("'do.1' was 'move'")),
    ] {
        let recorded: Vec<_> =
            recorded.into_iter().map(|address| StepAddress(address.to_owned())).collect();
        let checked = old.check_move(recorded.iter(), &doing(&new));
        match flaw {
            None => assert_eq!(checked, Ok(()), "{recorded:?} {new}"),
            Some(flaw) => assert!(checked.unwrap_err().contains(flaw), "{recorded:?} {new}"),
        }
    }
}

#[test]
fn only_a_step_that_may_pass_has_a_retry_of_its_own() {
    let event = json!({"event": "file.uploaded"});
    let retry = json!({"attempts": 3});
    let with = |mut step: serde_json::Value, retry: &serde_json::Value| {
        step["retry"] = retry.clone();
        step
    };
    let deliver = || json!({"deliver": {"endpoint": "e"}});
    assert_eq!(field(&event, &json!([with(deliver(), &retry)])), Ok(()));
    let inside = json!([{"parallel": {"do": [[with(deliver(), &retry)], [deliver()]]}}]);
    assert_eq!(field(&event, &inside), Ok(()));
    let check = || json!({"check": {"that": "true", "message": "m"}});
    for (when, step) in [
        (&event, with(deliver(), &json!({"attempts": 0}))),
        (&event, with(check(), &retry)),
        (&event, with(json!({"if": {"when": "true", "then": [deliver()]}}), &retry)),
        (&event, with(json!({"each": {"in": "[1]", "do": [deliver()]}}), &retry)),
        (&event, with(json!({"parallel": {"do": [[deliver()], [deliver()]]}}), &retry)),
        (&event, with(json!({"call": {"rule": "other"}}), &retry)),
        (&json!({"before": ["ftp STOR"]}), with(json!({"exec": {"argv": ["/bin/true"]}}), &retry)),
    ] {
        assert_eq!(field(when, &json!([step])), Err("do.0.retry".to_owned()), "{step}");
    }
    let mut rule = doing(&json!([deliver()]));
    rule.otherwise = vec![serde_json::from_value(with(deliver(), &retry)).unwrap()];
    assert_eq!(rule.check().unwrap_err().field, "else.0.retry");
}

#[test]
fn a_step_has_one_word_and_may_have_a_name() {
    let step = |text: &str| serde_json::from_str::<Step>(text).map_err(|e| e.to_string());
    let named = step(r#"{"delete": {}, "name": "gone"}"#).unwrap();
    assert_eq!(named.name.as_ref().map(Name::as_str), Some("gone"));
    let back = serde_json::to_string(&named).unwrap();
    assert_eq!(step(&back).unwrap(), named);
    assert_eq!(step(r#"{"delete": {}}"#).unwrap().name, None);
    for (bad, said) in [
        (r#"{"delete": {}, "exec": {"argv": ["/a"]}}"#, "has 'delete' and 'exec'"),
        (r#"{"name": "gone"}"#, "needs a word"),
        (r#"{"delite": {}}"#, "unknown field `delite`"),
        (r#"{"delete": {}, "nmae": "x"}"#, "unknown field `nmae`"),
        (r#"{"delete": {"pth": "/a"}}"#, "unknown field `pth`"),
        (r#"{"delete": {}, "name": "a", "name": "b"}"#, "duplicate field"),
        (r#""delete""#, "a mapping with one of deliver"),
    ] {
        let error = step(bad).unwrap_err();
        assert!(error.contains(said), "{bad}: {error}");
    }
    let kept = step(r#"{"delete": {}, "if": "file.size > 0", "on_error": "continue"}"#);
    let kept = kept.unwrap();
    assert_eq!(kept.condition.as_deref(), Some("file.size > 0"));
    assert_eq!(kept.on_error, OnError::Continue);
    assert_eq!(step(&serde_json::to_string(&kept).unwrap()).unwrap(), kept);
    let event = json!({"event": "file.uploaded"});
    let delete = |name: &str| json!({"delete": {}, "name": name});
    assert_eq!(field(&event, &json!([delete("a"), delete("b")])), Ok(()));
    let twice = json!([delete("a"), delete("a")]);
    assert_eq!(field(&event, &twice), Err("do.1.name".to_owned()));
    let dotted = json!([delete("do.1")]);
    assert_eq!(field(&event, &dotted), Err("do.0.name".to_owned()));
}

#[test]
fn a_client_waits_for_steps_that_ask_and_decide_and_for_no_others() {
    let reads = json!({"before": ["ftp RETR", "sftp open"]});
    let writes = json!({"before": ["ftp RETR", "ftp STOR"]});
    let after = json!({"after": ["ftp STOR"]});
    let event = json!({"event": "file.uploaded"});
    let scan = |more: serde_json::Value| {
        let mut scan = json!({"endpoint": "av"});
        scan.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "scan": scan })
    };
    let http = |more: serde_json::Value| {
        let mut http = json!({"endpoint": "api"});
        http.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "http": http })
    };
    let (none, wait) = (json!({}), json!({"reply": "wait"}));
    let refuse = || json!({"refuse": {"text": "No."}});
    let decides = json!([
        {"set": {"large": "command.argument.size() > 9"}},
        {"name": "look", "scan": {"endpoint": "av", "found": "continue"}, "timeout": "20s"},
        {"if": {"when": "steps.look.verdict == 'found'", "then": [refuse()]}},
        {"refuse": {"text": "No."}, "if": "vars.large"},
        http(none.clone()),
    ]);
    for (when, steps) in [
        (&reads, decides),
        (&writes, json!([http(none.clone()), refuse()])),
        (&after, json!([scan(wait.clone()), http(wait.clone())])),
        (&after, json!([{"if": {"when": "true", "then": [scan(wait.clone())]}}])),
        (&after, json!([scan(none.clone()), {"delete": {}}])),
    ] {
        assert_eq!(field(when, &steps), Ok(()), "{steps}");
    }
    let timed = |mut step: serde_json::Value| {
        step["timeout"] = "3s".into();
        step
    };
    for (when, steps, wrong) in [
        (&writes, json!([scan(none.clone())]), "do.0.scan"),
        (&json!({"before": ["* *"]}), json!([scan(none.clone())]), "do.0.scan"),
        (&reads, json!([http(json!({"body": "file"}))]), "do.0.http.body"),
        (&reads, json!([timed(http(none.clone()))]), "do.0.timeout"),
        (&reads, json!([{"check": {"that": "true", "message": "m"}}]), "do.0"),
        (&reads, json!([{"wait": {"for": "1s"}}, refuse()]), "do.0"),
        (&reads, json!([{"if": {"when": "true", "then": [{"delete": {}}]}}]), "do.0.if.then.0"),
        (&after, json!([scan(wait.clone()), http(none.clone())]), "do.1.http.reply"),
        (&after, json!([http(wait.clone()), {"delete": {}}]), "do.1"),
        (&after, json!([scan(wait.clone()), refuse()]), "do.1.refuse"),
        (&event, json!([scan(wait.clone())]), "do.0.scan.reply"),
        (&event, json!([http(wait.clone())]), "do.0.http.reply"),
    ] {
        assert_eq!(field(when, &steps), Err(wrong.to_owned()), "{steps}");
    }
}
