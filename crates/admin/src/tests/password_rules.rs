//! Rules on passwords that are set.

use super::*;

/// What setting a password answers.
async fn set(bench: &Bench, account: &str, password: &str) -> Result<Response> {
    bench.change(Kind::Account, account, json!({"password": password})).await
}

#[tokio::test]
async fn a_short_password_is_refused_with_the_length_that_its_policy_asks_for() {
    let bench = bench().await;
    let short = bench.create(json!({"account": {"name": "a", "password": "7 chars"}})).await;
    let short = short.unwrap_err();
    assert_eq!(short.code(), "EP0120");
    assert!(short.to_string().contains("fewer than 8 characters"), "{short}");
    bench.create(json!({"account": {"name": "a", "password": "8 chars!"}})).await.unwrap();
    assert!(set(&bench, "a", "äöüß äö").await.is_err(), "bytes are no characters");

    let groups = "policy: {name: long, least_password_length: 20}\n---\n\
                  policy: {name: short, least_password_length: 2}\n---\n\
                  account: {name: partners, type: group, policy: long}\n---\n\
                  account: {name: all, type: group, groups: [partners]}\n---\n\
                  account: {name: a, groups: [all]}\n";
    bench.apply(groups).await.unwrap();
    let error = set(&bench, "a", "not twenty letters").await.unwrap_err().to_string();
    assert!(error.contains("fewer than 20"), "the group of a group: {error}");
    set(&bench, "a", "these are twenty letters").await.unwrap();
    bench.change(Kind::Account, "a", json!({"policy": "short"})).await.unwrap();
    set(&bench, "a", "2!").await.unwrap();

    bench.change(Kind::Site, "main", json!({"policy": "long"})).await.unwrap();
    bench.create(json!({"account": {"name": "b"}})).await.unwrap();
    let error = set(&bench, "b", "not twenty letters").await.unwrap_err().to_string();
    assert!(error.contains("fewer than 20"), "the site: {error}");
}

#[tokio::test]
async fn documents_are_held_to_the_policy_that_they_bring_and_a_kept_password_is_not() {
    let bench = bench().await;
    let account = "account: {name: a, password: 'ten chars!'}\n";
    bench.apply(account).await.unwrap();
    let policy = "---\npolicy: {name: long, least_password_length: 20}\n---\n";
    let policed = account.replace("}", ", policy: long}") + policy;
    bench.apply(&policed).await.expect("the password is the one that it has");
    let other = format!("{policed}account: {{name: b, policy: long, password: 'ten chars!'}}\n");
    for plan_or_apply in [true, false] {
        let documents = document(&other);
        let request = if plan_or_apply {
            Request::Plan { documents, prune: false }
        } else {
            Request::Apply { documents, prune: false }
        };
        let error = bench.ask(request).await.unwrap_err();
        assert_eq!(error.code(), "EP0120");
        assert!(error.to_string().starts_with("a.yaml:5:"), "{error}");
    }
}

#[tokio::test]
async fn a_password_of_the_list_is_refused_and_a_list_that_cannot_be_read_refuses_all() {
    let mut bench = bench().await;
    let list = bench.dir.path().join("refused");
    let long = "x".repeat(5000);
    std::fs::write(&list, format!("iloveyou\r\n{long}\n12345678\nletmein!")).unwrap();
    let file = list.clone();
    let open = move || {
        let lines = std::io::BufReader::new(std::fs::File::open(&file)?);
        Ok(Box::new(lines) as Box<dyn std::io::BufRead>)
    };
    let refused = RefusedPasswords { name: "refused".to_owned(), open: Arc::new(open) };
    bench.admin = bench.admin.clone().with_refused_passwords(Some(refused));
    bench.create(json!({"account": {"name": "a"}})).await.unwrap();
    for known in ["iloveyou", "ILoveYou", "12345678", "letmein!"] {
        let error = set(&bench, "a", known).await.unwrap_err();
        assert_eq!(error.code(), "EP0120", "{known}");
        assert!(error.to_string().contains("leaked") && !error.to_string().contains(known));
    }
    set(&bench, "a", "correct horse battery").await.unwrap();
    // The list changes while the server runs.
    std::fs::write(&list, "staple staple").unwrap();
    assert!(set(&bench, "a", "staple staple").await.is_err());
    set(&bench, "a", "12345678").await.unwrap();
    std::fs::remove_file(&list).unwrap();
    let error = set(&bench, "a", "another password").await.unwrap_err();
    assert_eq!(error.code(), "EP0121");
    bench.change(Kind::Account, "a", json!({"note": "no password is set"})).await.unwrap();
}
