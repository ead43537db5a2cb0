// SPDX-License-Identifier: Apache-2.0
// Plug, swap, restart, migration and unplug of a NIC on networks with other projects' behaviors: each story works, or the NIC
// reports why not.
import { EVENTS } from "@patchbay/api";
import { createNetlink, createNamespaces } from "@patchbay/os";
import { eventually, run } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BenchGuest, NAMESPACE, OTHER_NETWORK, type PlugRequest } from "./bench-guest.ts";
import { OTHER_GATEWAY, startBench, type BenchMachine } from "./bench-machine.ts";
import { NAMESPACE_DIR } from "./namespaces.ts";
import {
  BENCH,
  NOT_RUN,
  OTHER_ADDRESSES,
  OTHER_MAC,
  WORKS,
  type BenchRow,
  type Story,
} from "./table.ts";

const TRUNK = "vlan-trunk";
let machine: BenchMachine | undefined;

beforeAll(async () => {
  machine = await startBench();
});

afterAll(async () => {
  await machine?.[Symbol.asyncDispose]();
});

function bench(): BenchMachine {
  if (machine === undefined) throw new Error("the bench has not started");
  return machine;
}

async function hasLostAddress({ name }: BenchGuest): Promise<boolean> {
  const { items } = await bench().agent.admin.store.list(EVENTS, { namespace: NAMESPACE });
  return items.some(
    ({ involvedObject, reason }) => involvedObject.name === name && reason === "AddressNotKept",
  );
}

/** Sends tagged frames as the guest until the node counts one. */
async function passTaggedFrames(guest: BenchGuest): Promise<void> {
  const { node } = bench().places;
  const links = JSON.parse(run("ip", "-n", node, "-j", "link", "show", "up")) as readonly {
    readonly ifname?: string;
  }[];
  const trunks = links
    .flatMap(({ ifname }) => ifname ?? [])
    .filter((name) => name.startsWith("trk"));
  const nft = (...words: readonly string[]): string =>
    run("ip", "netns", "exec", node, "nft", ...words);
  nft("add table netdev tags");
  const netns = createNamespaces().open(`${NAMESPACE_DIR}/${guest.guest}`);
  if (netns === undefined) throw new Error("the guest has no namespace");
  try {
    const hook = `type filter hook ingress devices = { ${trunks.join(", ")} } priority 0;`;
    nft(`add chain netdev tags in { ${hook} }`);
    nft("add rule netdev tags in vlan id 100 counter");
    const frame = Buffer.from(`${"ff".repeat(6)}02000000dd018100006488b5${"00".repeat(46)}`, "hex");
    const isPassed = async (): Promise<boolean> => {
      await createNetlink().sendFrames(netns, "eth0", [frame]);
      return /packets [1-9]/.test(nft("list", "table", "netdev", "tags"));
    };
    await eventually(isPassed, { withinMs: 5_000 });
  } finally {
    netns.close();
    nft("delete", "table", "netdev", "tags");
  }
}

/** Expects that the guest has all served addresses and the network's MTU, and that its traffic passes. Returns reported reasons. */
async function expectTraffic(
  guest: BenchGuest,
  { network, reach }: BenchRow,
): Promise<readonly string[]> {
  const [served, status] = [await guest.served(), await guest.status()];
  const addresses = await guest.configure(served);
  const missing = (status?.ips ?? []).filter((each) => !addresses.includes(each));
  const omissions = (served?.omissions ?? []).join("; ");
  for (const address of missing) expect(omissions).toContain(address);
  for (const target of reach) await guest.reach(target);
  if (network === TRUNK) await passTaggedFrames(guest);
  const mtu = /^mtu-(\d+)$/.exec(network)?.[1];
  if (mtu !== undefined) expect(String(served?.mtu)).toBe(mtu);
  return omissions === "" ? [] : ["AddressesPartlyServed"];
}

function describeOutcome(reasons: readonly string[]): string {
  const text = reasons.map((reason) => `\`${reason}\``).join(", ");
  return text === "" ? WORKS : `${WORKS}; ${text}`;
}

async function detailsOf(guest: BenchGuest): Promise<NonNullable<PlugRequest["before"]>> {
  const { ips = [], mac = "" } = (await guest.status()) ?? {};
  return { ips, mac };
}

type SwapEnd = Pick<BenchRow, "network" | "reach">;
type Guests = AsyncDisposableStack;

function plug(request: PlugRequest, guests: Guests): Promise<BenchGuest> {
  return BenchGuest.plug(bench().agent, request, guests);
}

/** Plugs a NIC with the previous addresses and MAC. */
async function restart(row: BenchRow, before?: PlugRequest["before"]): Promise<string> {
  await using guests = new AsyncDisposableStack();
  const { network } = row;
  const guest = await plug({ network, ...(before === undefined ? {} : { before }) }, guests);
  const refusal = await guest.wire();
  if (refusal !== undefined) return `\`${refusal.reason}\``;
  const reasons = await expectTraffic(guest, row);
  return describeOutcome([
    ...((await guest.hasOtherMac()) ? ["MacChanged"] : []),
    ...((await hasLostAddress(guest)) ? ["AddressNotKept"] : []),
    ...reasons,
  ]);
}

/** The target's NIC is wired before the guest arrives, and has another MAC than the guest's until then. */
async function migrate(row: BenchRow): Promise<string> {
  await using guests = new AsyncDisposableStack();
  const { network } = row;
  const source = await plug({ network }, guests);
  expect(await source.wire()).toBeUndefined();
  const mac = source.nicMac();
  const target = await plug({ network, source }, guests);
  const problem = await source.findMigrationProblem(target);
  if (problem !== undefined) {
    const outcome = problem.includes("may pass only frames") ? OTHER_MAC : OTHER_ADDRESSES;
    if (outcome === OTHER_ADDRESSES)
      expect(problem).toContain("gave interface one other addresses");
    return outcome;
  }
  const refusal = await target.wire(target.podUid);
  if (refusal !== undefined) return `\`${refusal.reason}\``;
  expect(target.nicMac()).not.toBe(mac);
  await source.unplug();
  expect(await target.wire()).toBeUndefined();
  expect(target.nicMac()).toBe(mac);
  return describeOutcome(await expectTraffic(target, row));
}

const OTHER = { network: OTHER_NETWORK, reach: [OTHER_GATEWAY] };

/** Swaps a running guest's NIC from one network to another. */
async function swap(from: SwapEnd, to: SwapEnd): Promise<string> {
  await using guests = new AsyncDisposableStack();
  const guest = await plug({ network: from.network }, guests);
  expect(await guest.wire()).toBeUndefined();
  await guest.configure();
  for (const target of from.reach) await guest.reach(target);
  const swapped = await guest.swap(to.network);
  if ("reason" in swapped) {
    for (const target of from.reach) await guest.reach(target);
    return `\`${swapped.reason}\``;
  }
  for (const target of to.reach) await guest.reach(target);
  if (to.network === TRUNK) await passTaggedFrames(guest);
  return describeOutcome(swapped.isPartlyServed ? ["AddressesPartlyServed"] : []);
}

/** Expects that neither pod nor guest has a link of the NIC. */
async function unplug(guest: BenchGuest): Promise<string> {
  await guest.unplug();
  expect(guest.remains()).toEqual([]);
  return WORKS;
}

async function runStories(row: BenchRow): Promise<Partial<Record<Story, string>>> {
  await using guests = new AsyncDisposableStack();
  const first = await plug({ network: row.network }, guests);
  const refusal = await first.wire();
  if (refusal !== undefined) {
    const outcomes = { plug: `\`${refusal.reason}\``, unplug: await unplug(first) };
    const restarted = await restart(row);
    const swapped = await swap(OTHER, row);
    const others = { "swap from": NOT_RUN, migration: NOT_RUN };
    return { ...outcomes, ...others, restart: restarted, "swap to": swapped };
  }
  const plugged = describeOutcome(await expectTraffic(first, row));
  const before = await detailsOf(first);
  // The addresses are free again once the network is detached.
  const unplugged = await unplug(first);
  await first.close();
  const restarted = await restart(row, before);
  const [swappedTo, swappedFrom, migrated] = await Promise.all([
    swap(OTHER, row),
    swap(row, OTHER),
    migrate(row),
  ]);
  return {
    plug: plugged,
    "swap to": swappedTo,
    "swap from": swappedFrom,
    restart: restarted,
    migration: migrated,
    unplug: unplugged,
  };
}

describe.concurrent("each story works or is reported", () => {
  // The slowest row begins first.
  const rows = BENCH.toSorted(
    (a, b) => Number(b.network === "slow") - Number(a.network === "slow"),
  );
  test.each(rows)(
    "on network $network",
    async (row) => {
      expect(await runStories(row)).toEqual(row.want);
    },
    600_000,
  );
});
