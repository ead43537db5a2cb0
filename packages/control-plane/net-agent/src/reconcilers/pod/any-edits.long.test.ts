// SPDX-License-Identifier: Apache-2.0
// Random sequences of edits, failures, crashes and replacements. In the end the pod has what a model without journal,
// interface names of unnamed NICs and passes predicts.
import { names } from "@patchbay/api";
import type { NetworkSelection } from "@patchbay/api/annotations";
import { AppError } from "@patchbay/base";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { World } from "../../testing/world.ts";

const FAILED = new AppError("CNI_PLUGIN_FAILED", { plugin: "bridge", command: "any" });
/** Passes after which the state is stable if nothing else fails. */
const PASSES = 15;
/** Attached to every pod by another component. */
const SIDE = { name: "kube-system/side", interface: "side0", dns: {} };

type Happening =
  /** The annotation changes; `isSeen`: the agent runs before the next event. */
  | { readonly what: "edit"; readonly text: string; readonly isSeen: boolean }
  | { readonly what: "fail"; readonly command: "add" | "del"; readonly isHalf: boolean }
  | { readonly what: "die"; readonly at: number }
  | { readonly what: "restart" }
  | { readonly what: "wake"; readonly afterMs: number }
  | { readonly what: "sandbox" }
  | { readonly what: "status" }
  | { readonly what: "pod" };

const element = fc.record(
  {
    // The last is not defined anywhere.
    name: fc.constantFrom("a", "b", "c", "nowhere"),
    interface: fc.constantFrom("net1", "net2", "pod0123456789a"),
  },
  { requiredKeys: ["name"] },
);
const list = fc.array(element, { maxLength: 4 }).map((elements) => JSON.stringify(elements));
const short = fc.constantFrom("a", "b@net1,a", "ns1/c@net2", "");
const invalid = fc.constantFrom("[null]", "[{", "a,,b", '{"name":"a"}', "a@", '[{"name":7}]');
const edit = fc.record({
  what: fc.constant("edit" as const),
  text: fc.oneof({ weight: 5, arbitrary: list }, short, invalid),
  isSeen: fc.boolean(),
});
const happening: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 6, arbitrary: edit },
  fc.record({
    what: fc.constant("fail" as const),
    command: fc.constantFrom("add" as const, "del" as const),
    isHalf: fc.boolean(),
  }),
  fc.record({ what: fc.constant("die" as const), at: fc.integer({ min: 1, max: 12 }) }),
  fc.constant({ what: "restart" } as const),
  fc.record({ what: fc.constant("wake" as const), afterMs: fc.integer({ min: 0, max: 60_000 }) }),
  fc.constant({ what: "sandbox" } as const),
  fc.constant({ what: "status" } as const),
  fc.constant({ what: "pod" } as const),
);

/** The requested networks; undefined if the text is invalid. */
function read(text: string): readonly NetworkSelection[] | undefined {
  if (text === "") return [];
  if (!text.startsWith("[")) {
    const items = text.split(",").map((item) => /^(?:ns1\/)?([a-c])(?:@(\w+))?$/.exec(item));
    if (items.some((item) => item === null)) return undefined;
    return items.map((item) => ({
      name: item?.[1] ?? "",
      ...(item?.[2] === undefined ? {} : { interface: item[2] }),
    }));
  }
  try {
    const value = JSON.parse(text) as readonly (NetworkSelection | null)[]; // of this test's own making
    return value.every((one) => typeof one?.name === "string")
      ? value.flatMap((one) => one ?? [])
      : undefined;
  } catch {
    return undefined;
  }
}

/** A pod's named NICs, and the number of unnamed ones by network. */
interface Model {
  readonly named: ReadonlyMap<string, string>;
  readonly unnamed: readonly string[];
}

function modelOf(elements: readonly NetworkSelection[]): Model {
  const named = new Map<string, string>();
  const unnamed: string[] = [];
  for (const { name, interface: nic } of elements) {
    if (nic === undefined) unnamed.push(`ns1/${name}`);
    // The first element with a name gets it.
    else if (!named.has(nic)) named.set(nic, `ns1/${name}`);
  }
  const isDefined = (network: string): boolean => network !== "ns1/nowhere";
  return {
    named: new Map([...named].filter(([, network]) => isDefined(network))),
    unnamed: unnamed.filter(isDefined).toSorted(),
  };
}

/** A world with the annotation that the agent may have read last. */
class Story {
  readonly world = new World();
  #uid = "uid-1";
  #box = "box-uid-1";
  #made = 1;
  #text = "";
  /** Networks of the last valid annotation that an agent read. */
  #asked: readonly NetworkSelection[] = [];

  async begin(): Promise<void> {
    this.world.putNads("a", "b", "c");
    await this.#putPod();
  }

  async let(happening: Happening): Promise<void> {
    const { world } = this;
    switch (happening.what) {
      case "edit":
        // The model does not cover work of a crashed agent, so that work ends before the annotation becomes invalid.
        if (read(happening.text) === undefined) await this.settle();
        this.#text = happening.text;
        await world.putPod({ networks: this.#text, uid: this.#uid });
        this.#keepSandbox();
        if (happening.isSeen) await this.#look(() => world.continuePass());
        return;
      case "fail":
        world.cni.failNext(
          happening.command,
          FAILED,
          ...(happening.isHalf ? (["half"] as const) : []),
        );
        return;
      case "die":
        await this.#look(() => world.diesAt(happening.at));
        return;
      case "restart":
        await this.#look(() => world.pass());
        return;
      case "wake":
        world.nowMs += happening.afterMs;
        await this.#look(() => world.continuePass());
        return;
      case "sandbox":
        // A new sandbox gets nothing while the annotation is invalid.
        if (read(this.#text) !== undefined) this.#replaceSandbox();
        return;
      case "status":
        await world.putPod({ uid: this.#uid, annotations: STATUS });
        this.#keepSandbox();
        return;
      case "pod":
        await this.#replacePod();
    }
  }

  /** Runs agents until one finds nothing to do. */
  async settle(): Promise<void> {
    const { world } = this;
    world.cni.heal();
    let before: number | undefined;
    for (let pass = 0; pass < PASSES && before !== world.effects; pass += 1) {
      before = world.effects;
      await this.#look(() => world.pass());
    }
    if (world.effects !== before)
      throw new Error(`it is not at rest: ${world.cni.calls.join(", ")}`);
  }

  /** The expected NICs and their sandbox. */
  get wanted(): { readonly model: Model; readonly uid: string; readonly box: string } {
    return { model: modelOf(this.#asked), uid: this.#uid, box: this.#box };
  }

  /** Records what the next agent reads; an invalid annotation changes nothing. */
  async #look(agent: () => Promise<unknown>): Promise<void> {
    this.#asked = read(this.#text) ?? this.#asked;
    await agent();
  }

  async #putPod(): Promise<void> {
    await this.world.putPod({ networks: this.#text, uid: this.#uid, annotations: STATUS });
  }

  #keepSandbox(): void {
    if (this.#box !== `box-${this.#uid}`) this.world.putSandbox(this.#uid, this.#box);
  }

  #replaceSandbox(): void {
    this.#made += 1;
    this.world.dropNamespace(this.#box);
    this.#box = `box-new-${String(this.#made)}`;
    this.world.putSandbox(this.#uid, this.#box);
  }

  /** Replaces the pod by another one of the same name. */
  async #replacePod(): Promise<void> {
    await this.world.deletePod();
    this.world.dropNamespace(this.#box);
    this.world.sandboxes.take(this.#uid);
    this.#made += 1;
    this.#uid = `uid-${String(this.#made)}`;
    this.#box = `box-${this.#uid}`;
    this.#asked = [];
    await this.#putPod();
  }
}

const STATUS = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify([SIDE]) };

async function tell(happenings: readonly Happening[]): Promise<Story> {
  const story = new Story();
  await story.begin();
  for (const one of happenings) await story.let(one);
  await story.settle();
  return story;
}

/** Checks that links, journal, status and plugins match the model. */
async function expectModel({ world, wanted }: Story): Promise<void> {
  const { named, unnamed } = wanted.model;
  const entries = (await world.networkStatus()).filter(({ name }) => name !== SIDE.name);
  const told = new Map(entries.map(({ name, interface: nic = "" }) => [nic, name]));
  expect(told.size).toBe(entries.length);
  for (const [nic, network] of named) expect([nic, told.get(nic)]).toEqual([nic, network]);
  const rest = [...told].filter(([nic]) => !named.has(nic));
  expect(rest.map(([, network]) => network).toSorted()).toEqual(unnamed);
  const nics = [...told.keys()].toSorted();
  expect(world.cni.attachments.toSorted()).toEqual(nics.map((nic) => `${wanted.box}/${nic}`));
  const rows = await world.journal.list(wanted.uid);
  expect(rows.map(({ request }) => request.interfaceName).toSorted()).toEqual(nics);
  expect(await world.journal.listPods()).toEqual(nics.length === 0 ? [] : [wanted.uid]);
  expect(world.openNamespaces).toBe(0);
  expect(world.cni.calls.filter((call) => call.includes(SIDE.interface))).toEqual([]);
}

test("converges to the last requested state after any sequence of events", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { maxLength: 16 }), async (happenings) => {
      await expectModel(await tell(happenings));
    }),
    { numRuns: 150 },
  );
});

test("does not touch retained attachments when nothing fails", async () => {
  await fc.assert(
    fc.asyncProperty(list, list, async (before, after) => {
      const story = await tell([{ what: "edit", text: before, isSeen: true }]);
      const { cni } = story.world;
      const had = cni.attachments;
      const networksBefore = new Map(
        (await story.world.networkStatus()).map((one) => [one.interface, one.name]),
      );
      const calls = cni.calls.length;
      await story.let({ what: "edit", text: after, isSeen: true });
      await story.settle();
      await expectModel(story);
      const stays = (await story.world.networkStatus()).filter(
        (one) => networksBefore.get(one.interface) === one.name,
      );
      const touched = cni.calls.slice(calls).map((call) => call.replace(/^\w+ /, ""));
      const kept = stays
        .map((one) => `box-uid-1/${one.interface ?? ""}`)
        .filter((key) => had.includes(key));
      expect(touched.filter((key) => kept.includes(key))).toEqual([]);
    }),
    { numRuns: 150 },
  );
});
