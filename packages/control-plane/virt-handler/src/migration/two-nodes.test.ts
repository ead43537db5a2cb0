// SPDX-License-Identifier: Apache-2.0
// A guest goes from one node to another, whoever dies meanwhile: it runs in one place at most, and its call is made once.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { aScheduledVmi, attachment, putNicAt, withCloudInit, without } from "../testing/scene.ts";
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

/** Calls that send it away. */
function sent(): number {
  return nodes.daemon("node1").calls.filter((call) => call.startsWith("migrateDomain")).length;
}

/** A migration is opened, and its guest is on its way. */
async function begin(): Promise<void> {
  nodes.daemon("node1").holdsMoves = true;
  await nodes.open();
  await nodes.until(() => Promise.resolve(sent() === 1));
}

function end(how: Parameters<ReturnType<TwoNodes["daemon"]>["endMove"]>[1]): void {
  nodes.daemon("node1").endMove("default_vm1", how);
}

test("it goes over, and is the other node's", async () => {
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

test("nothing is begun before the target's node has told where it listens", async () => {
  await nodes.stop("node2");
  await nodes.open();
  await nodes.clock.advance(10_000);
  expect([sent(), nodes.relays.openCount]).toEqual([0, 0]);
  await nodes.start("node2");
  await nodes.until(isReady);
});

test("the target's virt-handler dies when the guest is there: the next one is told again", async () => {
  await begin();
  await nodes.stop("node2");
  end("over");
  await nodes.clock.advance(5_000);
  expect(await states()).toEqual(["shutoff", "paused"]);
  await nodes.start("node2");
  await nodes.until(isReady);
  expect([await states(), sent()]).toEqual([["shutoff", "running"], 1]);
});

test("the source's virt-handler dies on the way, and the guest arrives: the next one tells", async () => {
  await begin();
  await nodes.stop("node1");
  end("over");
  await nodes.clock.advance(5_000);
  expect(await states()).toEqual(["shutoff", "paused"]);
  await nodes.start("node1");
  await nodes.until(isReady);
  expect([await states(), sent()]).toEqual([["shutoff", "running"], 1]);
});

test("the source's virt-handler dies on the way, and the guest stays: the next one says so", async () => {
  await begin();
  await nodes.stop("node1");
  end("broken before");
  await nodes.start("node1");
  await nodes.until(hasFailed);
  expect([await states(), sent()]).toEqual([["running", undefined], 1]);
});

test("a way that breaks leaves the guest where it is, and what came of it there still", async () => {
  await begin();
  end("broken after");
  await nodes.until(hasFailed);
  expect(await states()).toEqual(["running", "paused"]);
  expect((await nodes.migrationState()).failureReason).toContain("the connection was closed");
  expect(nodes.relays.openCount).toBe(0);
});

test("it is cancelled on its way", async () => {
  await begin();
  await nodes.writeMigration({ abortRequested: true });
  await nodes.until(hasFailed);
  expect(await nodes.migrationState()).toMatchObject({ abortStatus: "Succeeded" });
  expect(await states()).toEqual(["running", undefined]);
});

test("the source's pod has ended, and nobody has said anything: virt-controller's word is enough", async () => {
  await begin();
  await nodes.stop("node1");
  end("over");
  await nodes.writeMigration({ sourceEndedTimestamp: "2026-01-01T00:00:00Z" });
  await nodes.until(isReady);
  expect(await states()).toEqual(["shutoff", "running"]);
});

describe("a guest whose hook says what is on its disk", () => {
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

  test("has the same disk where it comes to", async () => {
    await nodes.open();
    await nodes.until(isReady);
    const [there, here] = disksHere();
    expect(there).toContain("hooked");
    expect(here).toBe(there);
    expect(await states()).toEqual(["shutoff", "running"]);
  });

  test("does not leave while its hook there does not answer", async () => {
    isBroken = true;
    await nodes.open();
    await nodes.until(() => Promise.resolve(nodes.hooks.calls.length > 6));
    expect(sent()).toBe(0);
    isBroken = false;
    await nodes.until(isReady);
    expect(disksHere()[1]).toContain("hooked");
  });
});

test("what its user has paused stays paused", async () => {
  const conditions = [{ type: "Paused", status: "True", reason: "PausedByUser" }] as const;
  await begin();
  await nodes.stop("node1");
  await nodes.writeStatus({ conditions: [...conditions] });
  end("over");
  await nodes.writeMigration({ sourceEndedTimestamp: "2026-01-01T00:00:00Z" });
  await nodes.until(isReady);
  expect(await states()).toEqual(["shutoff", "paused"]);
});

test("libvirt of the source dies at the last moment: it goes on there, and never at the target", async () => {
  await begin();
  end("stranded");
  await nodes.until(hasFailed);
  await nodes.until(async () => (await states())[0] === "running");
  await nodes.clock.advance(10_000);
  expect(await states()).toEqual(["running", "paused"]);
  expect((await nodes.migrationState()).failureReason).toContain("the guest goes on here");
});

test("a guest that is not what was made ready is held, and told of; it goes on when it is", async () => {
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

test("a guest that has left, and is nowhere when its migration is closed, has failed", async () => {
  await begin();
  await nodes.stop("node2");
  end("over");
  await nodes.writeMigration({ completed: true, failed: true });
  await nodes.until(async () => (await nodes.vmi()).status?.phase !== "Running");
  expect((await nodes.vmi()).status?.phase).toBe("Failed");
});

test("an unplug that is not answered goes along, and is done there", async () => {
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

test("a plug that waits for the move goes on there as the one that was asked for", async () => {
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
