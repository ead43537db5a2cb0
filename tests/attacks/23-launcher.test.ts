// SPDX-License-Identifier: Apache-2.0
// What can a program in a launcher's pod do to the machine, and whom can it reach?
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createConnection } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { launcherPod, RuntimeMachine } from "../contract/node-runtime-machine.ts";

/** Prints the name of each attempt that succeeds; `$1` is a directory to write to. */
const ATTEMPTS = `
  attempt() { name=$1; shift; "$@" >/dev/null 2>&1 && echo "$name"; }
  attempt link ip link add d0 type veth peer name d1
  attempt tap ip tuntap add dev t0 mode tap
  attempt "raw socket" perl -e 'socket(my $s, 17, 3, 0x300) or exit 1'
  attempt mount mount -t tmpfs none /mnt
  attempt mknod mknod "$1/device" c 1 3
  attempt setns nsenter --net=/proc/self/ns/net true
  attempt sysctl sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
  true
`;

let machine: RuntimeMachine;
beforeAll(async () => {
  machine = await RuntimeMachine.start();
});
afterEach(async () => {
  await machine.clear();
});
afterAll(async () => {
  await machine.close();
});

/** What a script in a launcher's container prints, as its user and with its device. */
async function runInPod(script: string): Promise<string> {
  await machine.create(
    launcherPod("a", {
      containers: [
        {
          name: "compute",
          image: "virt-launcher",
          command: ["sh", "-c", `{ ${script}\n} > /run/launcher/out`, "sh", "/run/launcher"],
          resources: { limits: { memory: "512Mi", "devices.kubevirt.io/tun": "1" } },
          volumeMounts: [{ name: "launcher", mountPath: "/run/launcher" }],
        },
      ],
      volumes: [{ name: "launcher", emptyDir: {} }],
    }),
  );
  const pod = await machine.inPhase("a", "Succeeded");
  const volumes = machine.path("pods", pod.metadata.uid ?? "", "volumes/kubernetes.io~empty-dir");
  return readFileSync(join(volumes, "launcher/out"), "utf8");
}

/** The same script with root's rights, in namespaces of its own. */
function runAsRoot(script: string): string {
  const directory = mkdtempSync(join(tmpdir(), "patchbay-attack-"));
  try {
    const args = ["-mn", "sh", "-c", script, "sh", directory];
    return execFileSync("unshare", args, { encoding: "utf8" });
  } finally {
    rmSync(directory, { recursive: true });
  }
}

test("attack 23: a launcher makes no link, tap, raw socket, mount or device, enters no namespace, sets no sysctl", async () => {
  // Whatever root can do, so that no attempt fails for another reason.
  expect(runAsRoot(ATTEMPTS).split("\n")).toHaveLength(8);
  expect(await runInPod(ATTEMPTS)).toBe("");
});

test("attack 37: the API server is not reached from the pod network", async () => {
  const port = Number(new URL(machine.api.server.url).port);
  const connection = createConnection(port, "127.0.0.1");
  await once(connection, "connect");
  connection.destroy();
  const connect = `perl -MIO::Socket::INET -e '
    for my $host ("10.253.77.1", "127.0.0.1") {
      print "$host\\n" if IO::Socket::INET->new(PeerAddr => $host, PeerPort => ${String(port)}, Timeout => 2);
    }
    print "tried\\n"'`;
  expect(await runInPod(connect)).toBe("tried\n");
});
