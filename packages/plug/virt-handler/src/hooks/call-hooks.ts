// SPDX-License-Identifier: Apache-2.0
// Asks hooks for cloud-init's data. Its disk was made before they ran: of a guest with a hook for it, it is made again of what
// they have answered.
import type { VirtualMachineInstance } from "@patchbay/api";
import {
  answeredCloudInit,
  AppError,
  hookedCloudInitOf,
  isEqual,
  type HookedCloudInit,
  type Subscription,
  hookNameOf,
  refusedChanges,
  subscribersAt,
  subscriptionProblem,
  type Subscriber,
} from "@patchbay/core";
import type { HookSidecar, HookSidecars, LauncherPod } from "@patchbay/core/ports";
import { layOver, readXml, writeXml, type XmlElement } from "@patchbay/domain/overlay";

const CALL = "PreCloudInitIso";
const UNSTEADY =
  "asked twice of the same data it answers differently; make what it does a function of what it is given";

interface Request {
  /** As JSON. */
  readonly vmi: string;
  readonly subscriptions: readonly Subscription[];
  readonly sidecars: ReadonlyMap<string, HookSidecar>;
}

function decode(base64: string): string {
  return Buffer.from(base64, "base64").toString("utf8");
}

async function askOne(
  given: HookedCloudInit,
  { hook, version, container }: Subscription,
  { vmi, sidecars }: Request,
): Promise<HookedCloudInit> {
  const { UserData: userData, NetworkData: networkData } = given;
  const answer = await sidecars.get(container)?.preCloudInitIso({
    version,
    vmi,
    data: JSON.stringify(given),
    noCloudSource: JSON.stringify({ userData, networkData }),
  });
  const answered = answer && answeredCloudInit(given, answer);
  if (answered !== undefined) return answered;
  const reason = "it is no data of cloud-init's";
  throw new AppError("HOOK_ANSWER_REFUSED", { hook, call: CALL, reason });
}

/** What each hook makes of the data, in their order. */
async function mutateCloudInitOnce(
  given: HookedCloudInit,
  request: Request,
): Promise<readonly HookedCloudInit[]> {
  const answers: HookedCloudInit[] = [];
  let last = given;
  for (const subscription of request.subscriptions) {
    last = await askOne(last, subscription, request);
    answers.push(last);
  }
  return answers;
}

/** Each is asked twice: a guest whose start fails would be another one each time. */
async function askAll(given: HookedCloudInit, request: Request): Promise<HookedCloudInit> {
  const first = await mutateCloudInitOnce(given, request);
  const second = await mutateCloudInitOnce(given, request);
  const other = first.findIndex((answer, index) => !isEqual(answer, second[index]));
  const unsteady = request.subscriptions[other];
  if (unsteady === undefined) return first.at(-1) ?? given;
  const details = { hook: unsteady.hook, call: CALL, reason: UNSTEADY };
  throw new AppError("HOOK_ANSWER_REFUSED", details);
}

/**
 * The data of each disk of cloud-init's as those want it that are to be asked of it; none where nobody is.
 * @throws AppError with HOOK_ANSWER_REFUSED, HOOK_FAILED where a Secret says what is in it
 */
async function askCloudInit(
  vmi: VirtualMachineInstance,
  subscriptions: readonly Subscription[],
  sidecars: ReadonlyMap<string, HookSidecar>,
): Promise<readonly HookedCloudInit[]> {
  const [first] = subscriptions;
  if (first === undefined) return [];
  const request = { vmi: JSON.stringify(vmi), subscriptions, sidecars };
  const answered: HookedCloudInit[] = [];
  for (const given of hookedCloudInitOf(vmi, decode)) {
    if (given === undefined) {
      const reason =
        "a Secret says cloud-init's data, which no node reads: write it in the VM, or use a hook without that point";
      throw new AppError("HOOK_FAILED", { hook: first.hook, call: CALL, reason });
    }
    answered.push(await askAll(given, request));
  }
  return answered;
}

/** Where hooks are. */
export interface HookPlace {
  readonly pod: LauncherPod;
  /** Their containers, in the order of the pod. */
  readonly sidecars: readonly string[];
}

/** Whose hooks are asked, and of which domain. */
export interface HookRequest extends HookPlace {
  /** Ifaces whose NICs are for hooks to make. */
  readonly made: readonly string[];
  readonly vmi: VirtualMachineInstance;
  /** Undefined: the guest comes from another node, where they were asked for it. */
  readonly domainXml: string | undefined;
}

/** What hooks have made of a guest. */
export interface Hooked {
  /** Empty where they were not asked for it. */
  readonly domainXml: string;
  /** Of cloud-init's disks, those that are to be made of it. */
  readonly cloudInit: readonly HookedCloudInit[];
}

type DomainRequest = HookRequest & { readonly domainXml: string };

type Reached = ReadonlyMap<string, HookSidecar>;

/** Refused changes that are told one by one. */
const TOLD_MAX = 5;

function refused(hook: string, call: string, reason: string): AppError {
  return new AppError("HOOK_ANSWER_REFUSED", { hook, call, reason });
}

/** All of them, or none. */
async function reach({ pod, sidecars }: HookPlace, hooks: HookSidecars): Promise<Reached> {
  const reaching = sidecars.map(async (container) => {
    return [container, await hooks.connect(pod, container)] as const;
  });
  const settled = await Promise.allSettled(reaching);
  const reached = settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  if (reached.length === sidecars.length) return new Map(reached);
  await Promise.all(reached.map(([, sidecar]) => sidecar.close()));
  await Promise.all(reaching); // throws what kept one from being reached
  return new Map();
}

async function introduce(reached: Reached): Promise<readonly Subscriber[]> {
  return Promise.all(
    [...reached].map(async ([container, sidecar]) => {
      const info = await sidecar.info();
      const problem = subscriptionProblem(info);
      if (problem !== undefined) throw refused(hookNameOf(container, info), "Info", problem);
      return { container, info };
    }),
  );
}

function rootOf(hook: string, xml: string): XmlElement {
  const read = readXml(xml);
  if (!read.ok) throw refused(hook, "OnDefineDomain", read.reason);
  if (read.root.name === "domain") return read.root;
  throw refused(hook, "OnDefineDomain", `it is a ${read.root.name.slice(0, 63)} and no domain`);
}

/** What the hook makes of the domain; what it may not change is refused, all of it at once. */
function hookedDomain(
  { hook }: Subscription,
  { given, answered }: { readonly given: XmlElement; readonly answered: string },
  { vmi, made }: HookRequest,
): XmlElement {
  const { root, changes } = layOver(given, rootOf(hook, answered));
  const all = refusedChanges(changes, vmi.spec, new Set(made));
  if (all.length === 0) return root;
  const told = all.slice(0, TOLD_MAX).map(({ where, message }) => `${where}: ${message}`);
  const more = all.length - told.length;
  const reason = [...told, more === 0 ? [] : `and ${String(more)} more`].flat().join("; ");
  throw refused(hook, "OnDefineDomain", reason);
}

/** The domain after each hook, in the order in which they are asked. */
async function mutateDomainOnce(
  request: DomainRequest,
  reached: Reached,
  subscriptions: readonly Subscription[],
): Promise<readonly XmlElement[]> {
  const vmi = JSON.stringify(request.vmi);
  const domains: XmlElement[] = [];
  let given = rootOf("of ours", request.domainXml);
  for (const subscription of subscriptions) {
    const { container, version } = subscription;
    const asked = { version, domainXml: writeXml(given), vmi };
    const answered = await reached.get(container)?.onDefineDomain(asked);
    given = hookedDomain(subscription, { given, answered: answered ?? "" }, request);
    domains.push(given);
  }
  return domains;
}

/** Whoever answers one thing now and another then would have another guest after each failure. */
function checkSame(
  subscriptions: readonly Subscription[],
  first: readonly XmlElement[],
  second: readonly XmlElement[],
): void {
  subscriptions.forEach(({ hook }, index) => {
    const [one, other] = [first[index], second[index]];
    if (one === undefined || other === undefined) return;
    const [change] = layOver(one, other).changes;
    const isSame = writeXml(one) === writeXml(other);
    if (isSame) return;
    const where = change === undefined ? "" : ` at ${change.where}`;
    const reason = `asked twice of the same domain it answers differently${where}; make what it does a function of what it is given`;
    throw refused(hook, "OnDefineDomain", reason);
  });
}

/** The domain that two passes agree on. */
async function hookedXml(
  request: DomainRequest,
  reached: Reached,
  subscriptions: readonly Subscription[],
): Promise<string> {
  const first = await mutateDomainOnce(request, reached, subscriptions);
  checkSame(subscriptions, first, await mutateDomainOnce(request, reached, subscriptions));
  const last = first.at(-1);
  return last === undefined ? request.domainXml : writeXml(last);
}

/**
 * The guest as the hooks want it. Each is asked twice, and must answer the same.
 * @throws AppError with HOOK_UNREACHABLE, HOOK_TIMED_OUT, HOOK_FAILED, HOOK_ANSWER_REFUSED, OS_PATH_REFUSED
 */
export async function askHooks(request: HookRequest, hooks: HookSidecars): Promise<Hooked> {
  const reached = await reach(request, hooks);
  try {
    const subscribers = await introduce(reached);
    const beforeCloudInit = subscribersAt("PreCloudInitIso", subscribers);
    const cloudInit = await askCloudInit(request.vmi, beforeCloudInit, reached);
    const { domainXml } = request;
    if (domainXml === undefined) return { domainXml: "", cloudInit };
    const subscriptions = subscribersAt("OnDefineDomain", subscribers);
    return {
      domainXml: await hookedXml({ ...request, domainXml }, reached, subscriptions),
      cloudInit,
    };
  } finally {
    await Promise.all([...reached.values()].map((sidecar) => sidecar.close()));
  }
}

/**
 * Tells the hooks that the guest has ended, those that want to hear it.
 * @throws AppError as {@link askHooks}
 */
export async function tellEnd(place: HookPlace, hooks: HookSidecars): Promise<void> {
  const reached = await reach(place, hooks);
  try {
    const subscribers = await introduce(reached);
    for (const { container } of subscribersAt("Shutdown", subscribers)) {
      await reached.get(container)?.shutdown();
    }
  } finally {
    await Promise.all([...reached.values()].map((sidecar) => sidecar.close()));
  }
}
