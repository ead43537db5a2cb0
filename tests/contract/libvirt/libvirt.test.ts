// SPDX-License-Identifier: Apache-2.0
// The hypervisor port's contract on libvirt's test driver and on QEMU under a session libvirtd of user 107.
import { closeSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createHypervisor } from "@patchbay/libvirt";
import { createClock } from "@patchbay/os";
import type { Hypervisor } from "@patchbay/core/interfaces";
import {
  describeHotplugContract,
  describeHypervisorContract,
  type HotplugBench,
  type HypervisorBench,
} from "@patchbay/libvirt/testing";
import { createBuiltChildStarter, openInode } from "@patchbay/support";
import { afterAll, beforeAll } from "vitest";
import { silentLogger } from "./logger.ts";
import {
  LAUNCHER,
  makeOwnDirectory,
  qemuDomainXml,
  qemuNicXml,
  startSessionDaemon,
} from "./session.ts";

const unprivileged = { kind: "uri", uri: "qemu+unix:///session?socket=/nonexistent/sock" } as const;
let cacheDirectory = "";
/** The child takes longer to start than most tests run; each test has its own daemon. */
let shared: Hypervisor;

function hypervisorOfLaunchers(): Hypervisor {
  return createHypervisor({
    starter: createBuiltChildStarter(),
    clock: createClock(),
    logger: silentLogger,
    identity: LAUNCHER,
  });
}

function makeTestDriverBench(): Promise<HypervisorBench> {
  const hypervisor = hypervisorOfLaunchers();
  return Promise.resolve({
    hypervisor,
    address: { kind: "uri", uri: "test:///default" },
    deadAddress: unprivileged,
    domainXml: (name: string) =>
      `<domain type='test'><name>${name}</name><memory>1024</memory><os><type>hvm</type></os></domain>`,
    close: () => hypervisor.close(),
  });
}

async function makeQemuBench(): Promise<HotplugBench> {
  const daemon = await startSessionDaemon({ cacheDirectory });
  const fd = openInode(daemon.socketPath);
  return {
    hypervisor: shared,
    address: { kind: "socket", fd },
    deadAddress: unprivileged,
    domainXml: qemuDomainXml,
    nicXml: qemuNicXml,
    // No guest runs; QEMU completes the requests at a reset.
    grantUnplugs: async (name) => {
      await daemon.virsh("reset", name);
    },
    describeGuest: async (name) => {
      const devices = await daemon.virsh("qemu-monitor-command", name, "--hmp", "info pci");
      return `QEMU: ${devices}\nlibvirt: ${await daemon.virsh("dumpxml", name)}`;
    },
    killGuest: () => {
      daemon.killGuest();
      return Promise.resolve();
    },
    stopDaemon: () => daemon.stop(),
    close: async () => {
      closeSync(fd);
      await daemon.close();
    },
  };
}

beforeAll(() => {
  cacheDirectory = makeOwnDirectory(mkdtempSync(join(tmpdir(), "session-cache-")));
  shared = hypervisorOfLaunchers();
});

afterAll(async () => {
  await shared.close();
  rmSync(cacheDirectory, { recursive: true });
});

describeHypervisorContract("libvirt, test:///default", makeTestDriverBench);
describeHypervisorContract("libvirt, QEMU", makeQemuBench);
describeHotplugContract("libvirt, QEMU", makeQemuBench);
