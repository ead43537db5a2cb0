// SPDX-License-Identifier: Apache-2.0
// A launchers' user with a device that only root may open on the node, on a real containerd with its defaults: a
// container's device has the owner and mode of the node's file. Needs root, containerd, runc and CNI's plugins.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { createContainerRuntime } from "@patchbay/cri";
import { createClock, createDeviceNodes, createProcessRunner } from "@patchbay/os";
import { containerConfigFor, sandboxConfigFor } from "@patchbay/cri/testing";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startContainerdBench, type ContainerdBench } from "../containerd/bench.ts";
import { makeBusyboxImage, SUITE_IMAGE } from "../cri/containerd-runtime.ts";

const USER = names.LAUNCHER_UID;
const SETTING = "device_ownership_from_security_context";

let containerd: ContainerdBench;
let directory = "";
/** A root device, 0600, with the numbers of /dev/null. */
let source = "";

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-devices-"));
  source = join(directory, "source");
  execFileSync("mknod", ["-m", "0600", source, "c", "1", "3"]);
  mkdirSync(join(directory, "logs"));
  containerd = await startContainerdBench({ sandboxImage: SUITE_IMAGE });
  const archive = join(directory, "busybox.tar");
  makeBusyboxImage(archive);
  await containerd.ctr("images", "import", archive);
  await containerd.end("SIGTERM");
  const { config } = containerd.layout;
  const lines = readFileSync(config, "utf8").split("\n");
  const others = lines.filter((line) => !line.startsWith(SETTING)); // off is the default
  writeFileSync(config, others.join("\n"));
  await containerd.start();
});
afterAll(async () => {
  await containerd.close();
  rmSync(directory, { recursive: true });
});

/** Exit code of a container of that user that opens the device, whose node file is at `hostPath`. */
async function open(name: string, hostPath: string): Promise<number | undefined> {
  const runtime = createContainerRuntime({
    endpoints: [containerd.endpoint],
    clock: createClock(),
  });
  try {
    const { cgroupParent } = containerd;
    const input = sandboxConfigFor({ logDirectory: join(directory, "logs"), cgroupParent }, name);
    // Uses the node's network, so that none must be created.
    const namespaces = { ...input.security.namespaces, network: "NODE" as const };
    const sandbox = { ...input, hostname: "", security: { ...input.security, namespaces } };
    const id = await runtime.runSandbox(sandbox);
    const config = containerConfigFor({ image: SUITE_IMAGE }, ["/bin/sh", "-c", ": <>/dev/device"]);
    const user = { namespaces, runAsUser: USER, runAsGroup: USER };
    const container = {
      ...config,
      devices: [{ containerPath: "/dev/device", hostPath, permissions: "rw" }],
      security: { ...config.security, ...user },
    };
    const containerId = await runtime.createContainer(id, container, sandbox);
    await runtime.startContainer(containerId);
    const ended = await eventually(
      async () => {
        const found = await runtime.findContainer(containerId);
        return found?.state === "EXITED" ? found : undefined;
      },
      { withinMs: 15_000 },
    );
    return ended.exitCode;
  } finally {
    runtime.close();
  }
}

test("a container cannot open the node's own device", async () => {
  expect(await open("node", source)).toBe(1);
});

test("a container can open the copy that the device plugin stores", async () => {
  const path = join(directory, "copies/null");
  const nodes = createDeviceNodes({ runner: createProcessRunner() });
  await nodes.ensureCopy({ source, path, uid: USER, gid: USER, mode: 0o600 });
  expect(await open("copy", path)).toBe(0);
});
