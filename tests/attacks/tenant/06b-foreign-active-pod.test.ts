// SPDX-License-Identifier: Apache-2.0
// A foreign pod's uid in a VMI's status: virt-handler checks the pod's owner with the runtime.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLaunchers } from "@patchbay/os";
import { createFakeSandboxes } from "@patchbay/cri/testing";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AttackedLoop, POD_UID } from "../false-libvirt/attacked-loop.ts";
import { AttackedNode, LAUNCHER } from "../false-libvirt/false-libvirt.ts";

let node: AttackedNode;
let podsDir = "";

beforeEach(() => {
  node = new AttackedNode();
  podsDir = mkdtempSync(join(tmpdir(), "foreign-pod-"));
});

afterEach(async () => {
  await node.close();
  rmSync(podsDir, { recursive: true });
});

test("attack 6: does not use another VMI's launcher, and reports it on the VMI", async () => {
  mkdirSync(join(podsDir, POD_UID));
  const ids = { id: POD_UID, podUid: POD_UID, netnsPath: "/nonexistent", netnsInode: "1" };
  const sandboxes = createFakeSandboxes();
  sandboxes.put({ ...ids, pod: { namespace: "tenant", name: "victim" } });
  const launchers = createLaunchers({
    podsDir,
    sandboxes,
    uid: LAUNCHER.uid,
    hostNetnsInode: "0",
  });
  const loop = new AttackedLoop(node, launchers);
  try {
    await eventually(() => loop.vmi?.status?.blockedReason !== undefined, { withinMs: 20_000 });
    expect(loop.vmi?.status?.blockedReason?.message).toMatch(
      /it belongs to pod tenant\/victim, not to the launcher/,
    );
    expect(loop.vmi?.status?.phase).toBe("Scheduled");
  } finally {
    await loop.close();
  }
});
