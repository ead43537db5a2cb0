// SPDX-License-Identifier: Apache-2.0
// Migrations between two nodes with crashes: the guest runs in one place at most, and libvirt is called once.
import { isEqual } from "@patchbay/base";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { NETNS } from "../testing/bench.ts";
import {
  aScheduledVmi,
  attachment,
  buildArp,
  linkNamesOf,
  MACS,
  putNicAt,
  withCloudInit,
  without,
} from "../testing/scene.ts";
import { PODS, TwoNodes } from "../testing/two-nodes.ts";

let nodes: TwoNodes;

beforeEach(async () => {
  nodes = new TwoNodes();
  await nodes.start("node1");
  await nodes.start("node2");
  await nodes.until(async () => (await nodes.vmi()).status?.phase === "Running");
});
afterEach(() => nodes.stopAll());

/** States on both nodes. */
function states(): Promise<readonly (string | undefined)[]> {
  return Promise.all([nodes.stateOn("node1"), nodes.stateOn("node2")]);
}

async function isReady(): Promise<boolean> {
  return (await nodes.migrationState()).targetNodeDomainReadyTimestamp !== undefined;
}

async function hasFailed(): Promise<boolean> {
  return (await nodes.migrationState()).failed === true;
}

/** Migration calls. */
function sent(): number {
  return nodes.daemon("node1").calls.filter((call) => call.startsWith("migrateDomain")).length;
}

/** Opens a migration whose guest is being transferred. */
async function begin(): Promise<void> {
  nodes.daemon("node1").holdsMoves = true;
  await nodes.open();
  await nodes.until(() => Promise.resolve(sent() === 1));
}

function end(how: Parameters<ReturnType<TwoNodes["daemon"]>["endMove"]>[1]): void {
  nodes.daemon("node1").endMove("default_vm1", how);
}

test("moves the guest to the other node, which then owns it", async () => {
  await nodes.open();
  await nodes.until(isReady);
  expect(await states()).toEqual(["shutoff", "running"]);
  expect(await nodes.migrationState()).toMatchObject({
    mode: "PreCopy",
    targetNodeAddress: nodes.relays.address,
    targetNodeDomainDetected: true,
  });
  await nodes.complete();
  await nodes.until(() => Promise.resolve(nodes.relays.openCount === 0));
  const { status } = await nodes.vmi();
  expect(status?.phase).toBe("Running");
  expect(status?.interfaces?.[0]?.hotplug?.phase).toBe("Ready");
  expect(await states()).toEqual(["shutoff", "running"]);
});

test("learned addresses move with the guest, and are then learned at the target's tap", async () => {
  const { node1, node2 } = nodes.frameWatches;
  const { tapName } = linkNamesOf("one");
  const announce = async (watch: typeof node1, address: string): Promise<void> => {
    watch.emit({ inode: NETNS }, tapName, {
      isOutgoing: false,
      frame: buildArp(MACS.one, address),
    });
    await nodes.until(async () => (await addresses()).includes(address));
  };
  const addresses = async (): Promise<readonly string[]> =>
    (await nodes.vmi()).status?.interfaces?.[0]?.ipAddresses ?? [];
  const listened = (): readonly number[] =>
    [node1, node2].map((watch) => watch.listWatched().length);
  await announce(node1, "10.0.0.5");
  await nodes.open();
  await nodes.until(isReady);
  expect(await addresses()).toEqual(["10.0.0.5"]);
  await nodes.complete();
  await nodes.until(() => Promise.resolve(isEqual(listened(), [0, 1])));
  expect(await addresses()).toEqual(["10.0.0.5"]);
  await announce(node2, "10.0.0.6");
  expect(await addresses()).toEqual(["10.0.0.6", "10.0.0.5"]);
  expect((await nodes.vmi()).status?.interfaces?.[0]?.addressInfo?.source).toBe("learned");
});

test("starts nothing before the target's node has published its address", async () => {
  await nodes.stop("node2");
  await nodes.open();
  await nodes.clock.advance(10_000);
  expect([sent(), nodes.relays.openCount]).toEqual([0, 0]);
  await nodes.start("node2");
  await nodes.until(isReady);
});

test("notifies the target's new virt-handler when the old one dies after the arrival", async () => {
  await begin();
  await nodes.stop("node2");
  end("over");
  await nodes.clock.advance(5_000);
  expect(await states()).toEqual(["shutoff", "paused"]);
  await nodes.start("node2");
  await nodes.until(isReady);
  expect([await states(), sent()]).toEqual([["shutoff", "running"], 1]);
});

test("notifies the target when the source's virt-handler dies and the guest arrives", async () => {
  await begin();
  await nodes.stop("node1");
  end("over");
  await nodes.clock.advance(5_000);
  expect(await states()).toEqual(["shutoff", "paused"]);
  await nodes.start("node1");
  await nodes.until(isReady);
  expect([await states(), sent()]).toEqual([["shutoff", "running"], 1]);
});

test("reports the failure when the source's virt-handler dies and the guest stays", async () => {
  await begin();
  await nodes.stop("node1");
  end("broken before");
  await nodes.start("node1");
  await nodes.until(hasFailed);
  expect([await states(), sent()]).toEqual([["running", undefined], 1]);
});

test("a broken relay fails the migration, and the guest stays on its node", async () => {
  await begin();
  end("broken after");
  await nodes.until(hasFailed);
  expect(await states()).toEqual(["running", "paused"]);
  expect((await nodes.migrationState()).failureReason).toContain("the connection was closed");
  expect(nodes.relays.openCount).toBe(0);
});

test("is canceled during the transfer", async () => {
  await begin();
  await nodes.writeMigration({ abortRequested: true });
  await nodes.until(hasFailed);
  expect(await nodes.migrationState()).toMatchObject({ abortStatus: "Succeeded" });
  expect(await states()).toEqual(["running", undefined]);
});

test("starts the guest after virt-controller reports that the source pod has ended", async () => {
  await begin();
  await nodes.stop("node1");
  end("over");
  await nodes.writeMigration({ sourceEndedTimestamp: "2026-01-01T00:00:00Z" });
  await nodes.until(isReady);
  expect(await states()).toEqual(["shutoff", "running"]);
});

describe("a guest whose hook changes its cloud-init disk", () => {
  const HOOK = "hook-sidecar-0";
  const DISKS = [`${PODS.node1}/init.iso`, `${PODS.node2}/init.iso`];
  let isBroken = false;

  beforeEach(async () => {
    await nodes.stopAll();
    nodes = new TwoNodes([HOOK]);
    isBroken = false;
    await nodes.edit((vmi) => withCloudInit(vmi, "of its owner"));
    for (const uid of Object.values(PODS)) {
      nodes.hooks.put(uid, HOOK, {
        info: {
          name: "users",
          versions: ["v1alpha3"],
          hookPoints: [{ name: "PreCloudInitIso", priority: 0 }],
        },
        preCloudInitIso: (given) => {
          if (isBroken) throw new Error("no users");
          return { ...given, data: given.data.replace("of its owner", "hooked") };
        },
      });
    }
    await nodes.start("node1");
    await nodes.start("node2");
    await nodes.until(async () => (await nodes.vmi()).status?.phase === "Running");
  });

  const disksHere = (): readonly (string | undefined)[] =>
    DISKS.map((file) => nodes.launcherDisks.files.get(file)).map(
      (bytes) => bytes && Buffer.from(bytes).toString("latin1"),
    );

  test("has the same disk on the target", async () => {
    await nodes.open();
    await nodes.until(isReady);
    const [there, here] = disksHere();
    expect(there).toContain("hooked");
    expect(here).toBe(there);
    expect(await states()).toEqual(["shutoff", "running"]);
  });

  test("does not leave while the hook on the target does not answer", async () => {
    isBroken = true;
    await nodes.open();
    await nodes.until(() => Promise.resolve(nodes.hooks.calls.length > 6));
    expect(sent()).toBe(0);
    isBroken = false;
    await nodes.until(isReady);
    expect(disksHere()[1]).toContain("hooked");
  });
});

test("a guest that its user has paused stays paused", async () => {
  const conditions = [{ type: "Paused", status: "True", reason: "PausedByUser" }] as const;
  await begin();
  await nodes.stop("node1");
  await nodes.writeStatus({ conditions: [...conditions] });
  end("over");
  await nodes.writeMigration({ sourceEndedTimestamp: "2026-01-01T00:00:00Z" });
  await nodes.until(isReady);
  expect(await states()).toEqual(["shutoff", "paused"]);
});

test("resumes only at the source when its libvirt dies at the last moment", async () => {
  await begin();
  end("stranded");
  await nodes.until(hasFailed);
  await nodes.until(async () => (await states())[0] === "running");
  await nodes.clock.advance(10_000);
  expect(await states()).toEqual(["running", "paused"]);
  expect((await nodes.migrationState()).failureReason).toContain("the guest continues here");
});

test("holds and reports a guest that differs from what was prepared, until it matches", async () => {
  const faults = async () => (await nodes.migrationState()).targetNodeDomainFaults;
  const place = /(<interface[^]*?<address [^>]*bus=")0x[0-9a-f]+/;
  nodes.daemon("node1").forge = (xml) => xml.replace(place, "$10x1f");
  await nodes.open();
  await nodes.until(async () => ((await faults()) ?? []).length > 0);
  expect(await faults()).toEqual([
    expect.stringMatching(/^the NIC with MAC \S+ has another place: 0000:1f:00.0$/),
  ]);
  await nodes.writeMigration({ abortRequested: true });
  await nodes.until(async () => (await nodes.migrationState()).sourceNodeDomainLeft === true);
  expect(await states()).toEqual(["shutoff", "paused"]);
  const [status = {}] = (await nodes.vmi()).status?.interfaces ?? [];
  await nodes.writeStatus({ interfaces: [{ ...status, pciAddress: "0000:1f:00.0" }] });
  await nodes.until(isReady);
  expect([await states(), await faults()]).toEqual([["shutoff", "running"], []]);
});

test("a guest that is on no node when its migration is closed has failed", async () => {
  await begin();
  await nodes.stop("node2");
  end("over");
  await nodes.writeMigration({ completed: true, failed: true });
  await nodes.until(async () => (await nodes.vmi()).status?.phase !== "Running");
  expect((await nodes.vmi()).status?.phase).toBe("Failed");
});

test("a pending unplug migrates along and completes on the target", async () => {
  nodes.daemon("node1").unplugPolicy = "hold";
  await nodes.edit((vmi) => without(vmi, "one"));
  const asked = (node: "node1" | "node2") =>
    nodes.daemon(node).calls.filter((call) => call.startsWith("detachDevice")).length;
  await nodes.until(() => Promise.resolve(asked("node1") > 0));
  await nodes.open();
  await nodes.until(isReady);
  expect([await states(), asked("node2")]).toEqual([["shutoff", "running"], 0]);
  await nodes.complete();
  await nodes.until(async () => {
    const { interfaces = [] } = (await nodes.vmi()).status ?? {};
    return interfaces[0]?.hotplug?.phase === "PodDetaching";
  });
  expect(nodes.daemon("node2").calls.filter((call) => call.startsWith("attach"))).toEqual([]);
});

test("a plug that waits for the migration completes on the target as requested", async () => {
  const operations = async () => {
    const { interfaceHistory = [] } = (await nodes.vmi()).status ?? {};
    return interfaceHistory.find(({ name }) => name === "two")?.operations ?? [];
  };
  nodes.daemon("node1").holdsMoves = true;
  await nodes.stop("node1");
  const { spec } = aScheduledVmi(["one", "two"]);
  await nodes.edit((vmi) => ({ ...vmi, spec }));
  await nodes.open();
  await nodes.until(async () => (await nodes.migrationState()).targetNodeAddress !== undefined);
  await nodes.start("node1");
  await nodes.until(() => Promise.resolve(sent() === 1));
  await nodes.until(async () => (await operations()).length > 0);
  end("over");
  await nodes.until(isReady);
  await nodes.complete();
  putNicAt(nodes.network("node2"), "two");
  await nodes.writeStatus({ attachments: [attachment("one"), attachment("two")] });
  await nodes.until(async () => (await operations()).at(-1)?.outcome !== undefined);
  expect(await operations()).toMatchObject([{ type: "Plug", outcome: "Done" }]);
});
