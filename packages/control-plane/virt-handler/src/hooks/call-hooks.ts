// SPDX-License-Identifier: Apache-2.0
// Calls to hook sidecars before a guest starts and after it ends. Cloud-init disks exist before the sidecars run, so the disks of
// guests with a PreCloudInitIso hook are created again from the hooks' answers.
import type { VirtualMachineInstance } from "@patchbay/api";
import {
  applyHookAnswer,
  cloudInitForHooks,
  type HookedCloudInit,
  type Subscription,
  buildHookName,
  refusedChanges,
  subscribersAt,
  subscriptionProblem,
  type Subscriber,
} from "@patchbay/core/hooks";
import { AppError, isEqual } from "@patchbay/base";
import type { HookSidecar, HookSidecars, LauncherPod } from "@patchbay/core/interfaces";
import { mergeDomain, readXml, writeXml, type XmlElement } from "@patchbay/domain/overlay";

const CALL = "PreCloudInitIso";
const UNSTABLE_ANSWER =
  "asked twice of the same data it answers differently; make what it does a function of what it is given";

interface Request {
  readonly vmi: string;
  readonly subscriptions: readonly Subscription[];
  readonly sidecars: ReadonlyMap<string, HookSidecar>;
}

function decode(base64: string): string {
  return Buffer.from(base64, "base64").toString("utf8");
}

async function callCloudInitHook(
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
  const answered = answer && applyHookAnswer(given, answer);
  if (answered !== undefined) return answered;
  const reason = "it is no data of cloud-init's";
  throw new AppError("HOOK_ANSWER_REFUSED", { hook, call: CALL, reason });
}

async function mutateCloudInitOnce(
  given: HookedCloudInit,
  request: Request,
): Promise<readonly HookedCloudInit[]> {
  const answers: HookedCloudInit[] = [];
  let last = given;
  for (const subscription of request.subscriptions) {
    last = await callCloudInitHook(last, subscription, request);
    answers.push(last);
  }
  return answers;
}

/** Calls each hook twice and rejects different answers, because a guest whose start is retried would change each time. */
async function mutateCloudInit(given: HookedCloudInit, request: Request): Promise<HookedCloudInit> {
  const first = await mutateCloudInitOnce(given, request);
  const second = await mutateCloudInitOnce(given, request);
  const other = first.findIndex((answer, index) => !isEqual(answer, second[index]));
  const unstable = request.subscriptions[other];
  if (unstable === undefined) return first.at(-1) ?? given;
  const details = { hook: unstable.hook, call: CALL, reason: UNSTABLE_ANSWER };
  throw new AppError("HOOK_ANSWER_REFUSED", details);
}

/**
 * Calls the hooks for each cloud-init disk; returns nothing without subscribed hooks.
 * @throws AppError with HOOK_ANSWER_REFUSED, or HOOK_FAILED when the data is in a Secret
 */
async function callCloudInitHooks(
  vmi: VirtualMachineInstance,
  subscriptions: readonly Subscription[],
  sidecars: ReadonlyMap<string, HookSidecar>,
): Promise<readonly HookedCloudInit[]> {
  const [first] = subscriptions;
  if (first === undefined) return [];
  const request = { vmi: JSON.stringify(vmi), subscriptions, sidecars };
  const answered: HookedCloudInit[] = [];
  for (const given of cloudInitForHooks(vmi, decode)) {
    if (given === undefined) {
      const reason =
        "a Secret says cloud-init's data, which no node reads: write it in the VM, or use a hook without that point";
      throw new AppError("HOOK_FAILED", { hook: first.hook, call: CALL, reason });
    }
    answered.push(await mutateCloudInit(given, request));
  }
  return answered;
}

export interface HookedPod {
  readonly pod: LauncherPod;
  readonly sidecars: readonly string[];
}

export interface HookRequest extends HookedPod {
  /** Ifaces whose NICs hooks create. */
  readonly hookNics: readonly string[];
  readonly vmi: VirtualMachineInstance;
  /** Undefined for a guest that migrates here; the source called its hooks for the domain. */
  readonly domainXml: string | undefined;
}

export interface Hooked {
  readonly domainXml: string;
  /** Data of the cloud-init disks that must be created again. */
  readonly cloudInit: readonly HookedCloudInit[];
}

type DomainRequest = HookRequest & { readonly domainXml: string };

type Sidecars = ReadonlyMap<string, HookSidecar>;

/** Maximum number of rejected changes in an error text. */
const LISTED_CHANGES_MAX = 5;

function refused(hook: string, call: string, reason: string): AppError {
  return new AppError("HOOK_ANSWER_REFUSED", { hook, call, reason });
}

async function connectAll({ pod, sidecars }: HookedPod, hooks: HookSidecars): Promise<Sidecars> {
  const reaching = sidecars.map(async (container) => {
    return [container, await hooks.connect(pod, container)] as const;
  });
  const settled = await Promise.allSettled(reaching);
  const sidecarsByContainer = settled.flatMap((one) =>
    one.status === "fulfilled" ? [one.value] : [],
  );
  if (sidecarsByContainer.length === sidecars.length) return new Map(sidecarsByContainer);
  await Promise.all(sidecarsByContainer.map(([, sidecar]) => sidecar.close()));
  await Promise.all(reaching); // throws the error of the failed connection
  return new Map();
}

async function readSubscribers(sidecarsByContainer: Sidecars): Promise<readonly Subscriber[]> {
  return Promise.all(
    [...sidecarsByContainer].map(async ([container, sidecar]) => {
      const info = await sidecar.info();
      const problem = subscriptionProblem(info);
      if (problem !== undefined) throw refused(buildHookName(container, info), "Info", problem);
      return { container, info };
    }),
  );
}

function parseRoot(hook: string, xml: string): XmlElement {
  const read = readXml(xml);
  if (!read.ok) throw refused(hook, "OnDefineDomain", read.reason);
  if (read.root.name === "domain") return read.root;
  throw refused(hook, "OnDefineDomain", `it is a ${read.root.name.slice(0, 63)} and no domain`);
}

/** Applies the hook's answer to the domain. Rejects all forbidden changes at once. */
function applyAnswer(
  { hook }: Subscription,
  { given, answered }: { readonly given: XmlElement; readonly answered: string },
  { vmi, hookNics }: HookRequest,
): XmlElement {
  const { root, changes } = mergeDomain(given, parseRoot(hook, answered));
  const all = refusedChanges(changes, vmi.spec, new Set(hookNics));
  if (all.length === 0) return root;
  const listed = all
    .slice(0, LISTED_CHANGES_MAX)
    .map(({ where, message }) => `${where}: ${message}`);
  const more = all.length - listed.length;
  const reason = [...listed, more === 0 ? [] : `and ${String(more)} more`].flat().join("; ");
  throw refused(hook, "OnDefineDomain", reason);
}

async function mutateDomainOnce(
  request: DomainRequest,
  sidecarsByContainer: Sidecars,
  subscriptions: readonly Subscription[],
): Promise<readonly XmlElement[]> {
  const vmi = JSON.stringify(request.vmi);
  const domains: XmlElement[] = [];
  let given = parseRoot("of ours", request.domainXml);
  for (const subscription of subscriptions) {
    const { container, version } = subscription;
    const asked = { version, domainXml: writeXml(given), vmi };
    const answered = await sidecarsByContainer.get(container)?.onDefineDomain(asked);
    given = applyAnswer(subscription, { given, answered: answered ?? "" }, request);
    domains.push(given);
  }
  return domains;
}

/** Rejects hooks whose two answers differ, because a guest whose start is retried would change each time. */
function checkStable(
  subscriptions: readonly Subscription[],
  first: readonly XmlElement[],
  second: readonly XmlElement[],
): void {
  subscriptions.forEach(({ hook }, index) => {
    const [one, other] = [first[index], second[index]];
    if (one === undefined || other === undefined) return;
    const [change] = mergeDomain(one, other).changes;
    const isSame = writeXml(one) === writeXml(other);
    if (isSame) return;
    const where = change === undefined ? "" : ` at ${change.where}`;
    const reason = `asked twice of the same domain it answers differently${where}; make what it does a function of what it is given`;
    throw refused(hook, "OnDefineDomain", reason);
  });
}

async function mutateDomain(
  request: DomainRequest,
  sidecarsByContainer: Sidecars,
  subscriptions: readonly Subscription[],
): Promise<string> {
  const first = await mutateDomainOnce(request, sidecarsByContainer, subscriptions);
  checkStable(
    subscriptions,
    first,
    await mutateDomainOnce(request, sidecarsByContainer, subscriptions),
  );
  const last = first.at(-1);
  return last === undefined ? request.domainXml : writeXml(last);
}

/**
 * Calls the guest's hooks, each twice; both answers must be the same.
 * @throws AppError with HOOK_UNREACHABLE, HOOK_TIMED_OUT, HOOK_FAILED, HOOK_ANSWER_REFUSED, OS_PATH_REFUSED
 */
export async function callHooks(request: HookRequest, hooks: HookSidecars): Promise<Hooked> {
  const sidecarsByContainer = await connectAll(request, hooks);
  try {
    const subscribers = await readSubscribers(sidecarsByContainer);
    const beforeCloudInit = subscribersAt("PreCloudInitIso", subscribers);
    const cloudInit = await callCloudInitHooks(request.vmi, beforeCloudInit, sidecarsByContainer);
    const { domainXml } = request;
    if (domainXml === undefined) return { domainXml: "", cloudInit };
    const subscriptions = subscribersAt("OnDefineDomain", subscribers);
    return {
      domainXml: await mutateDomain({ ...request, domainXml }, sidecarsByContainer, subscriptions),
      cloudInit,
    };
  } finally {
    await Promise.all([...sidecarsByContainer.values()].map((sidecar) => sidecar.close()));
  }
}

/**
 * Notifies the hooks that subscribed to the guest's end.
 * @throws AppError as {@link callHooks}
 */
export async function notifyEnd(place: HookedPod, hooks: HookSidecars): Promise<void> {
  const sidecarsByContainer = await connectAll(place, hooks);
  try {
    const subscribers = await readSubscribers(sidecarsByContainer);
    for (const { container } of subscribersAt("Shutdown", subscribers)) {
      await sidecarsByContainer.get(container)?.shutdown();
    }
  } finally {
    await Promise.all([...sidecarsByContainer.values()].map((sidecar) => sidecar.close()));
  }
}
