/* libssh as a client of the matrix: PORT ACCOUNT PASSWORD KNOWN_HOSTS VERB ARGUMENT...
   In place of a password, `key:FILE` is a private key. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <libssh/libssh.h>
#include <libssh/sftp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

/* As much as a READ or WRITE of libssh 0.10 carries at once. */
#define BLOCK 32768

static ssh_session session;
static sftp_session sftp;
static const char *verb;

static void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s: %s: %s (SFTP %d)\n", verb, what, session ? ssh_get_error(session) : "",
            sftp ? sftp_get_error(sftp) : 0);
    exit(1);
}

static void log_in(const char *secret) {
    ssh_key key = NULL;
    if (strncmp(secret, "key:", 4)) {
        must(ssh_userauth_password(session, NULL, secret) == SSH_AUTH_SUCCESS, "password");
        return;
    }
    must(ssh_pki_import_privkey_file(secret + 4, NULL, NULL, NULL, &key) == SSH_OK, secret);
    must(ssh_userauth_publickey(session, NULL, key) == SSH_AUTH_SUCCESS, "key");
    ssh_key_free(key);
}

static void connect_to(const char *port, const char *account, const char *password,
                       const char *known_hosts) {
    int number = atoi(port), off = 0;
    session = ssh_new();
    must(session != NULL, "no memory");
    ssh_options_set(session, SSH_OPTIONS_PROCESS_CONFIG, &off);
    ssh_options_set(session, SSH_OPTIONS_HOST, "127.0.0.1");
    ssh_options_set(session, SSH_OPTIONS_PORT, &number);
    ssh_options_set(session, SSH_OPTIONS_USER, account);
    ssh_options_set(session, SSH_OPTIONS_KNOWNHOSTS, known_hosts);
    must(ssh_connect(session) == SSH_OK, "connect");
    must(ssh_session_is_known_server(session) == SSH_KNOWN_HOSTS_OK, "host key");
    log_in(password);
    sftp = sftp_new(session);
    must(sftp != NULL && sftp_init(sftp) == SSH_OK, "sftp");
}

static void put(const char *local, const char *remote, int flags, uint64_t from) {
    static char block[BLOCK];
    ssize_t size;
    int source = open(local, O_RDONLY);
    must(source >= 0 && lseek(source, (off_t)from, SEEK_SET) >= 0, local);
    sftp_file target = sftp_open(sftp, remote, flags, 0644);
    must(target != NULL && sftp_seek64(target, from) == 0, remote);
    while ((size = read(source, block, sizeof block)) > 0)
        must(sftp_write(target, block, (size_t)size) == size, "write");
    must(size == 0 && sftp_close(target) == SSH_OK, "close");
    close(source);
}

static void get(const char *remote, const char *local, int flags, uint64_t from) {
    static char block[BLOCK];
    ssize_t size;
    sftp_file source = sftp_open(sftp, remote, O_RDONLY, 0);
    must(source != NULL && sftp_seek64(source, from) == 0, remote);
    int target = open(local, O_WRONLY | flags, 0644);
    must(target >= 0, local);
    while ((size = sftp_read(source, block, sizeof block)) > 0)
        must(write(target, block, (size_t)size) == size, local);
    must(size == 0 && sftp_close(source) == SSH_OK && close(target) == 0, "read");
}

static char *below(const char *folder, const char *name) {
    char *path = NULL;
    must(asprintf(&path, "%s/%s", folder, name) >= 0, "no memory");
    return path;
}

static int is_dots(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

static void put_tree(const char *local, const char *remote) {
    struct dirent *entry;
    DIR *folder = opendir(local);
    must(folder != NULL && sftp_mkdir(sftp, remote, 0755) == 0, remote);
    while ((entry = readdir(folder))) {
        if (is_dots(entry->d_name)) continue;
        char *here = below(local, entry->d_name), *there = below(remote, entry->d_name);
        if (entry->d_type == DT_DIR)
            put_tree(here, there);
        else
            put(here, there, O_WRONLY | O_CREAT | O_TRUNC, 0);
        free(here);
        free(there);
    }
    closedir(folder);
}

/* Calls `each` for every entry but the dots. */
static void walk(const char *remote, const char *local,
                 void (*each)(sftp_attributes, const char *, const char *)) {
    sftp_attributes entry;
    sftp_dir folder = sftp_opendir(sftp, remote);
    must(folder != NULL, remote);
    while ((entry = sftp_readdir(sftp, folder))) {
        if (!is_dots(entry->name)) each(entry, remote, local);
        sftp_attributes_free(entry);
    }
    must(sftp_dir_eof(folder) && sftp_closedir(folder) == 0, "list");
}

static void print_name(sftp_attributes entry, const char *remote, const char *local) {
    (void)remote, (void)local;
    puts(entry->name);
}

static void get_entry(sftp_attributes entry, const char *remote, const char *local) {
    char *here = below(local, entry->name), *there = below(remote, entry->name);
    if (entry->type == SSH_FILEXFER_TYPE_DIRECTORY) {
        must(mkdir(here, 0755) == 0, here);
        walk(there, here, get_entry);
    } else {
        get(there, here, O_CREAT | O_TRUNC, 0);
    }
    free(here);
    free(there);
}

static uint64_t size_there(const char *remote) {
    sftp_attributes there = sftp_stat(sftp, remote);
    must(there != NULL, remote);
    return there->size;
}

static void times_up(const char *local, const char *remote) {
    struct stat here;
    must(stat(local, &here) == 0, local);
    struct timeval times[2] = {{here.st_atime, 0}, {here.st_mtime, 0}};
    must(sftp_utimes(sftp, remote, times) == 0, "times");
}

static void times_down(const char *local, const char *remote) {
    sftp_attributes there = sftp_stat(sftp, remote);
    must(there != NULL, remote);
    struct timeval times[2] = {{there->atime, 0}, {there->mtime, 0}};
    must(utimes(local, times) == 0, local);
}

static void run(const char *one, const char *other) {
    struct stat here;
    if (!strcmp(verb, "put") || !strcmp(verb, "put_times")) {
        put(one, other, O_WRONLY | O_CREAT | O_TRUNC, 0);
        if (!strcmp(verb, "put_times")) times_up(one, other);
    } else if (!strcmp(verb, "get") || !strcmp(verb, "get_times")) {
        get(other, one, O_CREAT | O_TRUNC, 0);
        if (!strcmp(verb, "get_times")) times_down(one, other);
    } else if (!strcmp(verb, "resume_up")) {
        put(one, other, O_WRONLY, size_there(other));
    } else if (!strcmp(verb, "resume_down")) {
        must(stat(one, &here) == 0, one);
        get(other, one, O_APPEND, (uint64_t)here.st_size);
    } else if (!strcmp(verb, "put_tree")) {
        put_tree(one, other);
    } else if (!strcmp(verb, "get_tree")) {
        must(mkdir(one, 0755) == 0, one);
        walk(other, one, get_entry);
    } else if (!strcmp(verb, "rename")) {
        must(sftp_rename(sftp, one, other) == 0, "rename");
    } else if (!strcmp(verb, "list")) {
        walk(one, "", print_name);
    } else if (!strcmp(verb, "symlink")) {
        must(sftp_symlink(sftp, one, other) == 0, "symlink");
    } else if (!strcmp(verb, "readlink")) {
        char *target = sftp_readlink(sftp, one);
        must(target != NULL, "readlink");
        puts(target);
    } else {
        must(0, "no such verb");
    }
}

int main(int count, char **words) {
    if (count < 7) return 2;
    verb = words[5];
    connect_to(words[1], words[2], words[3], words[4]);
    run(words[6], count > 7 ? words[7] : NULL);
    sftp_free(sftp);
    ssh_disconnect(session);
    ssh_free(session);
    return 0;
}
