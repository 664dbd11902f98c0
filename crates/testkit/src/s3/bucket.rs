//! Objects as files, by s3s-fs but for listings. For each listing that walks the whole bucket, and
//! it fails when an object goes meanwhile; here only the directory is read that a prefix names.

use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;

/// The buckets of a server.
pub(super) struct Buckets {
    files: FileSystem,
    root: PathBuf,
}

/// The operations that s3s-fs serves, and the listing that it does not.
macro_rules! buckets {
    ($($operation:ident: $input:ident -> $output:ident;)*) => {
        #[async_trait::async_trait]
        impl S3 for Buckets {
            $(async fn $operation(
                &self,
                request: S3Request<$input>,
            ) -> S3Result<S3Response<$output>> {
                self.files.$operation(request).await
            })*

            async fn list_objects_v2(
                &self,
                request: S3Request<ListObjectsV2Input>,
            ) -> S3Result<S3Response<ListObjectsV2Output>> {
                self.list(request.input).map(S3Response::new)
            }
        }
    };
}

buckets! {
    abort_multipart_upload: AbortMultipartUploadInput -> AbortMultipartUploadOutput;
    complete_multipart_upload: CompleteMultipartUploadInput -> CompleteMultipartUploadOutput;
    copy_object: CopyObjectInput -> CopyObjectOutput;
    create_bucket: CreateBucketInput -> CreateBucketOutput;
    create_multipart_upload: CreateMultipartUploadInput -> CreateMultipartUploadOutput;
    delete_bucket: DeleteBucketInput -> DeleteBucketOutput;
    delete_object: DeleteObjectInput -> DeleteObjectOutput;
    delete_objects: DeleteObjectsInput -> DeleteObjectsOutput;
    get_bucket_location: GetBucketLocationInput -> GetBucketLocationOutput;
    get_object: GetObjectInput -> GetObjectOutput;
    head_bucket: HeadBucketInput -> HeadBucketOutput;
    head_object: HeadObjectInput -> HeadObjectOutput;
    list_buckets: ListBucketsInput -> ListBucketsOutput;
    list_parts: ListPartsInput -> ListPartsOutput;
    put_object: PutObjectInput -> PutObjectOutput;
    upload_part: UploadPartInput -> UploadPartOutput;
    upload_part_copy: UploadPartCopyInput -> UploadPartCopyOutput;
}

impl Buckets {
    /// Those of the directories in `root`.
    pub(super) fn new(root: &Path) -> anyhow::Result<Buckets> {
        let files =
            FileSystem::new(root).map_err(|error| anyhow::anyhow!("the S3 server: {error:?}"))?;
        Ok(Buckets { files, root: root.to_owned() })
    }

    fn list(&self, asked: ListObjectsV2Input) -> S3Result<ListObjectsV2Output> {
        let bucket = self.root.join(&asked.bucket);
        if !bucket.is_dir() {
            return Err(s3_error!(NoSuchBucket));
        }
        let is_deep = match asked.delimiter.as_deref() {
            Some("/") => false,
            None => true,
            Some(_) => return Err(s3_error!(NotImplemented, "a delimiter other than '/'")),
        };
        let prefix = asked.prefix.clone().unwrap_or_default();
        let folder = prefix.rfind('/').map_or("", |slash| &prefix[..=slash]);
        let mut listing = Listing { prefix: &prefix, is_deep, found: BTreeMap::new() };
        listing.read(&bucket.join(folder), folder).map_err(s3s::S3Error::internal_error)?;
        let after = asked.continuation_token.as_ref().max(asked.start_after.as_ref());
        let mut found = listing.found;
        if let Some(after) = after {
            found = found.split_off(after);
            found.remove(after);
        }
        let most = asked.max_keys.and_then(|most| usize::try_from(most).ok()).unwrap_or(1000);
        let is_truncated = found.len() > most;
        let page: Vec<_> = found.into_iter().take(most).collect();
        let last = page.last().map(|(key, _)| key.clone());
        let mut output = ListObjectsV2Output {
            name: Some(asked.bucket),
            prefix: asked.prefix,
            delimiter: asked.delimiter,
            max_keys: asked.max_keys,
            key_count: i32::try_from(page.len()).ok(),
            is_truncated: Some(is_truncated),
            continuation_token: asked.continuation_token,
            next_continuation_token: last.filter(|_| is_truncated),
            start_after: asked.start_after,
            ..Default::default()
        };
        for (key, object) in page {
            match object {
                Some(object) => output.contents.get_or_insert_default().push(object),
                None => output
                    .common_prefixes
                    .get_or_insert_default()
                    .push(CommonPrefix { prefix: Some(key) }),
            }
        }
        Ok(output)
    }
}

/// What a listing has found: objects, and without a value what several keys begin with.
struct Listing<'a> {
    prefix: &'a str,
    is_deep: bool,
    found: BTreeMap<String, Option<Object>>,
}

impl Listing<'_> {
    /// Takes what lies in a directory, whose keys begin with `folder`.
    fn read(&mut self, directory: &Path, folder: &str) -> Result<()> {
        for entry in entries(directory)? {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let key = format!("{folder}{name}");
            if !key.starts_with(self.prefix) {
                continue;
            }
            let Some(metadata) = if_there(entry.metadata())? else { continue };
            if !metadata.is_dir() {
                let object = Object {
                    key: Some(key.clone()),
                    last_modified: Some(metadata.modified()?.into()),
                    size: i64::try_from(metadata.len()).ok(),
                    ..Default::default()
                };
                self.found.insert(key, Some(object));
            } else if self.is_deep {
                self.read(&entry.path(), &format!("{key}/"))?;
            } else if holds_a_file(&entry.path())? {
                self.found.insert(format!("{key}/"), None);
            }
        }
        Ok(())
    }
}

/// What lies in a directory: nothing if there is none.
fn entries(directory: &Path) -> Result<Vec<DirEntry>> {
    match if_there(std::fs::read_dir(directory))? {
        Some(entries) => entries.collect(),
        None => Ok(Vec::new()),
    }
}

/// Whether a key begins with that of this directory. S3 has no empty ones.
fn holds_a_file(directory: &Path) -> Result<bool> {
    for entry in entries(directory)? {
        let is_directory = entry.file_type()?.is_dir();
        if !is_directory || holds_a_file(&entry.path())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Nothing of what has gone, or never was.
fn if_there<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
