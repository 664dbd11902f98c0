//! The bodies of PROPFIND (RFC 4918 §9.1), PROPPATCH (§9.2) and LOCK (§9.10).

use crate::bad_body::BadBody;
use crate::element::{Element, Node, PropertyName};
use crate::limits::OWNER_BYTES;
use crate::locks::Scope;

/// Which properties PROPFIND asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropFind {
    /// All that RFC 4918 defines, and these besides.
    All(Vec<PropertyName>),
    /// The names of those that are there.
    Names,
    /// The properties of these names.
    These(Vec<PropertyName>),
}

impl PropFind {
    /// Reads a body; an empty one asks for all.
    ///
    /// # Errors
    /// See [`BadBody`].
    pub fn parse(body: &[u8]) -> Result<PropFind, BadBody> {
        if body.trim_ascii().is_empty() {
            return Ok(PropFind::All(Vec::new()));
        }
        let root = Element::parse(body)?;
        if !root.name.is_dav("propfind") {
            return Err(BadBody::Meaning);
        }
        let names = |element: Option<&Element>| -> Vec<PropertyName> {
            element.into_iter().flat_map(Element::elements).map(|it| it.name.clone()).collect()
        };
        let (all, prop) = (root.child("allprop"), root.child("prop"));
        match (all, root.child("propname"), prop) {
            (Some(_), None, None) => Ok(PropFind::All(names(root.child("include")))),
            (None, Some(_), None) => Ok(PropFind::Names),
            (None, None, Some(_)) => Ok(PropFind::These(names(prop))),
            _ => Err(BadBody::Meaning),
        }
    }
}

/// One change that PROPPATCH asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyChange {
    /// The property gets this value.
    Set(Element),
    /// The property goes.
    Remove(PropertyName),
}

impl PropertyChange {
    /// Reads a body: the changes, in order.
    ///
    /// # Errors
    /// See [`BadBody`].
    pub fn parse(body: &[u8]) -> Result<Vec<PropertyChange>, BadBody> {
        let root = Element::parse(body)?;
        if !root.name.is_dav("propertyupdate") {
            return Err(BadBody::Meaning);
        }
        let mut changes = Vec::new();
        for instruction in root.elements() {
            let properties = instruction.child("prop").into_iter().flat_map(Element::elements);
            if instruction.name.is_dav("set") {
                changes.extend(properties.cloned().map(PropertyChange::Set));
            } else if instruction.name.is_dav("remove") {
                changes.extend(properties.map(|it| PropertyChange::Remove(it.name.clone())));
            }
        }
        if changes.is_empty() { Err(BadBody::Meaning) } else { Ok(changes) }
    }

    /// The property that it is about.
    pub fn name(&self) -> &PropertyName {
        match self {
            PropertyChange::Set(element) => &element.name,
            PropertyChange::Remove(name) => name,
        }
    }
}

/// What LOCK asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// Alone, or with others.
    pub scope: Scope,
    /// What the client says about itself; shown to others as it is.
    pub owner: Vec<Node>,
}

impl LockInfo {
    /// Reads a body; an empty one refreshes a lock: `None`.
    ///
    /// # Errors
    /// See [`BadBody`].
    pub fn parse(body: &[u8]) -> Result<Option<LockInfo>, BadBody> {
        if body.trim_ascii().is_empty() {
            return Ok(None);
        }
        let root = Element::parse(body)?;
        let is_write = root.child("locktype").is_some_and(|it| it.child("write").is_some());
        if !root.name.is_dav("lockinfo") || !is_write {
            return Err(BadBody::Meaning);
        }
        let scope = root.child("lockscope").ok_or(BadBody::Meaning)?;
        let scope = match (scope.child("exclusive"), scope.child("shared")) {
            (Some(_), None) => Scope::Exclusive,
            (None, Some(_)) => Scope::Shared,
            _ => return Err(BadBody::Meaning),
        };
        let owner = root.child("owner");
        let mut size = String::new();
        if let Some(owner) = owner {
            owner.write(&mut size);
        }
        if size.len() > OWNER_BYTES {
            return Err(BadBody::TooLarge);
        }
        let owner = owner.map(|owner| owner.nodes.clone()).unwrap_or_default();
        Ok(Some(LockInfo { scope, owner }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_ask_for() {
        assert_eq!(PropFind::parse(b" \r\n"), Ok(PropFind::All(Vec::new())));
        // As the client of Windows, Finder and davfs2 write it.
        let these = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
                     <D:propfind xmlns:D=\"DAV:\"><D:prop><D:getlastmodified/>\
                     <x:quota xmlns:x=\"http://apache.org/dav/props/\"/>\
                     </D:prop></D:propfind>";
        let quota = PropertyName {
            namespace: "http://apache.org/dav/props/".to_owned(),
            name: "quota".to_owned(),
        };
        let wanted = vec![PropertyName::dav("getlastmodified"), quota];
        assert_eq!(PropFind::parse(these.as_bytes()), Ok(PropFind::These(wanted)));
        let all = "<propfind xmlns=\"DAV:\"><allprop/><include><acl/></include></propfind>";
        let included = vec![PropertyName::dav("acl")];
        assert_eq!(PropFind::parse(all.as_bytes()), Ok(PropFind::All(included)));
        let names = "<propfind xmlns='DAV:'><propname/></propfind>";
        assert_eq!(PropFind::parse(names.as_bytes()), Ok(PropFind::Names));
        for body in [
            "<propfind xmlns='DAV:'/>",
            "<propfind xmlns='DAV:'><allprop/><propname/></propfind>",
            "<propfind><allprop/></propfind>",
            "<other xmlns='DAV:'><allprop/></other>",
        ] {
            assert_eq!(PropFind::parse(body.as_bytes()), Err(BadBody::Meaning), "{body}");
        }
    }

    #[test]
    fn changes_come_in_their_order() {
        let body = "<propertyupdate xmlns='DAV:' xmlns:z='urn:z'><set><prop><z:a>1</z:a></prop>\
                    </set><remove><prop><z:a/><z:b/></prop></remove></propertyupdate>";
        let changes = PropertyChange::parse(body.as_bytes()).unwrap();
        let names: Vec<_> = changes.iter().map(|change| &*change.name().name).collect();
        assert_eq!(names, ["a", "a", "b"]);
        assert!(matches!(&changes[0], PropertyChange::Set(element) if element.text() == "1"));
        let empty = "<propertyupdate xmlns='DAV:'><set/></propertyupdate>";
        assert_eq!(PropertyChange::parse(empty.as_bytes()), Err(BadBody::Meaning));
    }

    #[test]
    fn locks_that_are_asked_for() {
        let body = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope>\
                    <D:locktype><D:write/></D:locktype><D:owner><D:href>mailto:a@b</D:href>\
                    </D:owner></D:lockinfo>";
        let info = LockInfo::parse(body.as_bytes()).unwrap().unwrap();
        assert_eq!((info.scope, info.owner.len()), (Scope::Exclusive, 1));
        assert_eq!(LockInfo::parse(b""), Ok(None));
        let shared = body.replace("exclusive", "shared");
        assert_eq!(LockInfo::parse(shared.as_bytes()).unwrap().unwrap().scope, Scope::Shared);
        for body in [body.replace("write", "read"), body.replace("exclusive", "other")] {
            assert_eq!(LockInfo::parse(body.as_bytes()), Err(BadBody::Meaning), "{body}");
        }
        let long = body.replace("mailto:a@b", &"x".repeat(OWNER_BYTES));
        assert_eq!(LockInfo::parse(long.as_bytes()), Err(BadBody::TooLarge));
    }
}
