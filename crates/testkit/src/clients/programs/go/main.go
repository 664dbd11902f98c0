// pkg/sftp as a client of the matrix: PORT ACCOUNT PASSWORD KNOWN_HOSTS VERB ARGUMENT...
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"path"
	"path/filepath"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func connect(port, account, password, knownHosts string) *sftp.Client {
	known, err := knownhosts.New(knownHosts)
	must(err)
	connection, err := ssh.Dial("tcp", "127.0.0.1:"+port, &ssh.ClientConfig{
		User:            account,
		Auth:            []ssh.AuthMethod{ssh.Password(password)},
		HostKeyCallback: known,
	})
	must(err)
	client, err := sftp.NewClient(connection)
	must(err)
	return client
}

// Copies from where `source` and `target` stand, by the library's concurrent copies where it has
// them.
func pour(target io.WriteCloser, source io.ReadCloser) {
	_, err := io.Copy(target, source)
	must(err)
	must(target.Close())
	must(source.Close())
}

func put(client *sftp.Client, local, remote string) {
	source, err := os.Open(local)
	must(err)
	target, err := client.Create(remote)
	must(err)
	pour(target, source)
}

func get(client *sftp.Client, remote, local string) {
	source, err := client.Open(remote)
	must(err)
	target, err := os.Create(local)
	must(err)
	pour(target, source)
}

func resumeUp(client *sftp.Client, local, remote string) {
	there, err := client.Stat(remote)
	must(err)
	source, err := os.Open(local)
	must(err)
	_, err = source.Seek(there.Size(), io.SeekStart)
	must(err)
	target, err := client.OpenFile(remote, os.O_WRONLY)
	must(err)
	_, err = target.Seek(there.Size(), io.SeekStart)
	must(err)
	pour(target, source)
}

func resumeDown(client *sftp.Client, remote, local string) {
	here, err := os.Stat(local)
	must(err)
	source, err := client.Open(remote)
	must(err)
	_, err = source.Seek(here.Size(), io.SeekStart)
	must(err)
	target, err := os.OpenFile(local, os.O_WRONLY|os.O_APPEND, 0)
	must(err)
	pour(target, source)
}

func putTree(client *sftp.Client, local, remote string) {
	must(filepath.Walk(local, func(here string, info os.FileInfo, err error) error {
		must(err)
		below, err := filepath.Rel(local, here)
		must(err)
		there := path.Join(remote, below)
		if info.IsDir() {
			return client.MkdirAll(there)
		}
		put(client, here, there)
		return nil
	}))
}

func getTree(client *sftp.Client, remote, local string) {
	walker := client.Walk(remote)
	for walker.Step() {
		must(walker.Err())
		below, err := filepath.Rel(remote, walker.Path())
		must(err)
		here := filepath.Join(local, below)
		if walker.Stat().IsDir() {
			must(os.Mkdir(here, 0o755))
		} else {
			get(client, walker.Path(), here)
		}
	}
}

func run(client *sftp.Client, verb string, words []string) {
	switch verb {
	case "put":
		put(client, words[0], words[1])
	case "get":
		get(client, words[1], words[0])
	case "resume_up":
		resumeUp(client, words[0], words[1])
	case "resume_down":
		resumeDown(client, words[1], words[0])
	case "put_tree":
		putTree(client, words[0], words[1])
	case "get_tree":
		getTree(client, words[1], words[0])
	case "put_times":
		put(client, words[0], words[1])
		info, err := os.Stat(words[0])
		must(err)
		must(client.Chtimes(words[1], info.ModTime(), info.ModTime()))
	case "get_times":
		get(client, words[1], words[0])
		info, err := client.Stat(words[1])
		must(err)
		must(os.Chtimes(words[0], info.ModTime(), info.ModTime()))
	case "rename":
		must(client.PosixRename(words[0], words[1]))
	case "list":
		entries, err := client.ReadDir(words[0])
		must(err)
		for _, entry := range entries {
			fmt.Println(entry.Name())
		}
	case "symlink":
		must(client.Symlink(words[0], words[1]))
	case "readlink":
		target, err := client.ReadLink(words[0])
		must(err)
		fmt.Println(target)
	default:
		log.Fatalf("no verb %s", verb)
	}
}

func main() {
	log.SetFlags(0)
	words := os.Args[1:]
	client := connect(words[0], words[1], words[2], words[3])
	run(client, words[4], words[5:])
	must(client.Close())
}
