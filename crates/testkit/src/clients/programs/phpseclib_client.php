<?php
// phpseclib as a client of the matrix: PORT ACCOUNT PASSWORD KNOWN_HOSTS VERB ARGUMENT...
declare(strict_types=1);

require 'phpseclib3/autoload.php';

use phpseclib3\Net\SFTP;

[, $port, $account, $password, $known_hosts, $verb] = $argv;
$words = array_slice($argv, 6);
$sftp = new SFTP('127.0.0.1', (int) $port, 30);

function must($result)
{
    global $sftp, $verb;
    if ($result === false) {
        fwrite(STDERR, "$verb: " . ($sftp->getLastSFTPError() ?: 'failed') . "\n");
        exit(1);
    }
    return $result;
}

function put_tree(SFTP $sftp, string $local, string $remote): void
{
    must($sftp->mkdir($remote));
    foreach (array_diff(scandir($local), ['.', '..']) as $name) {
        [$here, $there] = ["$local/$name", "$remote/$name"];
        if (is_dir($here)) {
            put_tree($sftp, $here, $there);
        } else {
            must($sftp->put($there, $here, SFTP::SOURCE_LOCAL_FILE));
        }
    }
}

function get_tree(SFTP $sftp, string $remote, string $local): void
{
    mkdir($local);
    foreach (array_diff(must($sftp->nlist($remote)), ['.', '..']) as $name) {
        [$here, $there] = ["$local/$name", "$remote/$name"];
        if ($sftp->is_dir($there)) {
            get_tree($sftp, $there, $here);
        } else {
            must($sftp->get($there, $here));
        }
    }
}

$key = fn ($line) => implode(' ', array_slice(explode(' ', $line), 1, 2));
$keys = array_map($key, file($known_hosts, FILE_IGNORE_NEW_LINES));
if (!in_array($sftp->getServerPublicHostKey(), $keys, true)) {
    fwrite(STDERR, "the host key is not the known one\n");
    exit(1);
}
must($sftp->login($account, $password));
switch ($verb) {
    case 'put':
        must($sftp->put($words[1], $words[0], SFTP::SOURCE_LOCAL_FILE));
        break;
    case 'get':
    case 'get_times':
        $verb === 'get' || $sftp->enableDatePreservation();
        must($sftp->get($words[1], $words[0]));
        break;
    case 'resume_up':
        // Without the last number the whole file is sent behind what is there.
        $mode = SFTP::SOURCE_LOCAL_FILE | SFTP::RESUME;
        must($sftp->put($words[1], $words[0], $mode, -1, $sftp->filesize($words[1])));
        break;
    case 'resume_down':
        // Given a name instead, it would empty the file.
        must($sftp->get($words[1], fopen($words[0], 'ab'), filesize($words[0])));
        break;
    case 'put_tree':
        put_tree($sftp, $words[0], $words[1]);
        break;
    case 'get_tree':
        get_tree($sftp, $words[1], $words[0]);
        break;
    case 'put_times':
        $sftp->enableDatePreservation();
        must($sftp->put($words[1], $words[0], SFTP::SOURCE_LOCAL_FILE));
        break;
    case 'rename':
        must($sftp->rename($words[0], $words[1]));
        break;
    case 'list':
        echo implode("\n", must($sftp->nlist($words[0]))), "\n";
        break;
    case 'symlink':
        must($sftp->symlink($words[0], $words[1]));
        break;
    case 'readlink':
        echo must($sftp->readlink($words[0])), "\n";
        break;
    default:
        fwrite(STDERR, "no verb $verb\n");
        exit(1);
}
