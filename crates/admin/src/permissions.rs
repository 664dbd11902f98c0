//! The table of rights: what each request asks of the role of who makes it.

use entrepot_nouns::AdminRight;

use crate::request::Request;

/// True if a browser that asks for it must have shown its password a short while ago: it changes
/// who may do what, gives secrets out, or steers nodes.
pub fn is_dangerous(request: &Request) -> bool {
    match request {
        Request::Plan { .. } | Request::DryRun { .. } | Request::DryRunRule { .. } => false,
        _ => matches!(needed(request), AdminRight::Configure | AdminRight::Steer),
    }
}

/// The right that a request needs. Every request has its line here. A rule of one's own that is
/// tried out, and not the stored one, tells which files other accounts have; documents hold hashes
/// and sealed secrets, and a plan tells of a password whether it is the stored one.
pub fn needed(request: &Request) -> AdminRight {
    match request {
        Request::List { .. }
        | Request::Show { .. }
        | Request::Transfers { .. }
        | Request::Transfer { .. }
        | Request::Jobs { .. }
        | Request::Job { .. }
        | Request::Approvals
        | Request::TestRules { .. }
        | Request::LintRules { .. }
        | Request::Sessions
        | Request::LogLevels
        | Request::Nodes
        | Request::Node { .. }
        | Request::JournalHeads { .. }
        | Request::LoginLimits
        | Request::SignIns { .. }
        | Request::Links { .. }
        | Request::Link { .. }
        | Request::Certificates
        | Request::Passkeys { .. }
        | Request::Tokens { .. } => AdminRight::See,
        Request::DryRunRule { order } if !order.documents.is_empty() => AdminRight::Configure,
        Request::DiffRules { .. }
        | Request::Trace { .. }
        | Request::Events { .. }
        | Request::DryRunRule { .. }
        | Request::SeenFiles { .. }
        | Request::ExplainRules { .. } => AdminRight::Audit,
        Request::As2 { ask } => ask.needed(),
        Request::RunRule { .. } | Request::PauseRule { .. } => AdminRight::Run,
        Request::AnswerApproval { .. } => AdminRight::Approve,
        Request::Forget { .. }
        | Request::RetryJob { .. }
        | Request::ReplayRule { .. }
        | Request::CancelJob { .. }
        | Request::DecideHeld { .. }
        | Request::EndSession { .. }
        | Request::EndSignIn { .. }
        | Request::LimitSession { .. }
        | Request::LimitNode { .. }
        | Request::SetLogLevels { .. }
        | Request::ResetLogLevels
        | Request::DrainNode { .. }
        | Request::UndrainNode { .. }
        | Request::SetNodePools { .. }
        | Request::RenewCertificate { .. }
        | Request::RevokeToken { .. }
        | Request::RemovePasskey { .. }
        | Request::RevokeLink { .. }
        | Request::Unlock { .. } => AdminRight::Operate,
        Request::Export { .. }
        | Request::Plan { .. }
        | Request::DryRun { .. }
        | Request::Apply { .. }
        | Request::Create { .. }
        | Request::Replace { .. }
        | Request::Change { .. }
        | Request::Delete { .. }
        | Request::CreateToken { .. }
        | Request::CreateLink { .. }
        | Request::DeleteLink { .. }
        | Request::MakeRecoveryCodes { .. } => AdminRight::Configure,
        Request::StopNode
        | Request::RemoveNode { .. }
        | Request::NoteBackup { .. }
        | Request::MakeSetUpToken => AdminRight::Steer,
    }
}
