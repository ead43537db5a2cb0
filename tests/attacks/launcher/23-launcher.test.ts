// SPDX-License-Identifier: Apache-2.0
// What can a program in a launcher's pod do to the machine, and whom can it reach?
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@patchbay/testing";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { launcherPod, RuntimeMachine } from "../../contract/node-runtime/machine.ts";

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

/** More of a pod's specification, as a tenant writes it. */
interface Asked {
  readonly pod?: object;
  readonly container?: object;
}

/** What a script in a launcher's container prints, as its user and with its device. */
async function runInPod(script: string, asked: Asked = {}): Promise<string> {
  await machine.create(
    launcherPod("a", {
      containers: [
        {
          name: "compute",
          image: "virt-launcher",
          command: ["sh", "-c", `{ ${script}\n} > /run/launcher/out`, "sh", "/run/launcher"],
          resources: { limits: { memory: "512Mi", "devices.kubevirt.io/tun": "1" } },
          volumeMounts: [{ name: "launcher", mountPath: "/run/launcher" }],
          ...asked.container,
        },
      ],
      volumes: [{ name: "launcher", emptyDir: {} }],
      ...asked.pod,
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

test("attack 49: a pod that asks for privileges and the host's namespaces gets neither", async () => {
  const look = `stat -L -c %i /proc/self/ns/net /proc/self/ns/pid /proc/self/ns/ipc; grep CapEff /proc/self/status;`;
  const said = await runInPod(`${look} ${ATTEMPTS}`, {
    pod: { hostNetwork: true, hostPID: true, hostIPC: true },
    container: {
      securityContext: {
        privileged: true,
        allowPrivilegeEscalation: true,
        capabilities: { add: ["NET_ADMIN", "SYS_ADMIN", "NET_RAW", "MKNOD"] },
      },
    },
  });
  const [net, pid, ipc, capabilities, ...succeeded] = said.split("\n");
  const own = (kind: string): string => String(statSync(`/proc/self/ns/${kind}`).ino);
  expect([net, pid, ipc]).not.toEqual(expect.arrayContaining([own("net")]));
  expect(pid).not.toBe(own("pid"));
  expect(ipc).not.toBe(own("ipc"));
  expect(capabilities).toMatch(/:\s*0+$/);
  expect(succeeded).toEqual([""]);
});

test("attack 49: a path of the host in a pod is refused in words", async () => {
  const image = "virt-launcher";
  const volumeMounts = [{ name: "host", mountPath: "/run/host" }];
  await machine.create(
    launcherPod("b", {
      containers: [{ name: "compute", image, volumeMounts }],
      // The type of a pod knows the volumes that work.
      volumes: [{ name: "host", hostPath: { path: "/" } } as object as { name: string }],
    }),
  );
  const message = await eventually(
    async () => (await machine.pod("b"))?.status?.containerStatuses?.[0]?.state.waiting?.message,
    { withinMs: 10_000 },
  );
  expect(message).toContain("volume host is neither an emptyDir nor an image");
});
