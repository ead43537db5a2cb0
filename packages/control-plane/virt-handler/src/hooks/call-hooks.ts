// SPDX-License-Identifier: Apache-2.0
// Calls hook sidecars, which may change the domain and the cloud-init data, and informs them when the guest has shut down.
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

const CLOUD_INIT_CALL = "PreCloudInitIso";
const UNSTABLE_ANSWER =
  "it returned different answers for the same data; make its answer depend only on its input";

interface CloudInitRequest {
  readonly vmi: string;
  readonly subscriptions: readonly Subscription[];
  readonly sidecars: ReadonlyMap<string, HookSidecar>;
}

function decode(base64: string): string {
  return Buffer.from(base64, "base64").toString("utf8");
}

async function callCloudInitHook(
  input: HookedCloudInit,
  { hook, version, container }: Subscription,
  { vmi, sidecars }: CloudInitRequest,
): Promise<HookedCloudInit> {
  const { UserData: userData, NetworkData: networkData } = input;
  const answer = await sidecars.get(container)?.preCloudInitIso({
    version,
    vmi,
    data: JSON.stringify(input),
    noCloudSource: JSON.stringify({ userData, networkData }),
  });
  const changed = answer && applyHookAnswer(input, answer);
  if (changed !== undefined) return changed;
  const reason = "it is not cloud-init data";
  throw new AppError("HOOK_ANSWER_REFUSED", { hook, call: CLOUD_INIT_CALL, reason });
}

async function mutateCloudInitOnce(
  input: HookedCloudInit,
  request: CloudInitRequest,
): Promise<readonly HookedCloudInit[]> {
  const answers: HookedCloudInit[] = [];
  let last = input;
  for (const subscription of request.subscriptions) {
    last = await callCloudInitHook(last, subscription, request);
    answers.push(last);
  }
  return answers;
}

/** Calls each hook twice. Rejects a hook whose answers differ, because the guest would then get different data at each start attempt. */
async function mutateCloudInit(
  input: HookedCloudInit,
  request: CloudInitRequest,
): Promise<HookedCloudInit> {
  const first = await mutateCloudInitOnce(input, request);
  const second = await mutateCloudInitOnce(input, request);
  const differingIndex = first.findIndex((answer, index) => !isEqual(answer, second[index]));
  const unstableSubscription = request.subscriptions[differingIndex];
  if (unstableSubscription === undefined) return first.at(-1) ?? input;
  const details = {
    hook: unstableSubscription.hook,
    call: CLOUD_INIT_CALL,
    reason: UNSTABLE_ANSWER,
  };
  throw new AppError("HOOK_ANSWER_REFUSED", details);
}

async function callCloudInitHooks(
  vmi: VirtualMachineInstance,
  subscriptions: readonly Subscription[],
  sidecars: ReadonlyMap<string, HookSidecar>,
): Promise<readonly HookedCloudInit[]> {
  const [first] = subscriptions;
  if (first === undefined) return [];
  const request = { vmi: JSON.stringify(vmi), subscriptions, sidecars };
  const answers: HookedCloudInit[] = [];
  for (const input of cloudInitForHooks(vmi, decode)) {
    if (input === undefined) {
      const reason =
        "the cloud-init data is in a Secret, which nodes cannot read; put it in the VM, or use a hook that does not subscribe to PreCloudInitIso";
      throw new AppError("HOOK_FAILED", { hook: first.hook, call: CLOUD_INIT_CALL, reason });
    }
    answers.push(await mutateCloudInit(input, request));
  }
  return answers;
}

export interface HookedPod {
  readonly pod: LauncherPod;
  readonly sidecars: readonly string[];
}

export interface HookRequest extends HookedPod {
  /** Names of interfaces whose NICs the hooks create. */
  readonly hookNics: readonly string[];
  readonly vmi: VirtualMachineInstance;
  /** Domain XML for the hooks. Unset for an incoming migration, because the hooks were called on the source node. */
  readonly domainXml: string | undefined;
}

export interface HookAnswers {
  readonly domainXml: string;
  /** Changed cloud-init data. The caller must create the cloud-init disks again with this data. */
  readonly cloudInit: readonly HookedCloudInit[];
}

type DomainRequest = HookRequest & { readonly domainXml: string };

type Sidecars = ReadonlyMap<string, HookSidecar>;

const LISTED_CHANGES_MAX = 5;

function toRejection(hook: string, call: string, reason: string): AppError {
  return new AppError("HOOK_ANSWER_REFUSED", { hook, call, reason });
}

async function connectAll({ pod, sidecars }: HookedPod, hooks: HookSidecars): Promise<Sidecars> {
  const connections = sidecars.map(async (container) => {
    return [container, await hooks.connect(pod, container)] as const;
  });
  const settled = await Promise.allSettled(connections);
  const sidecarsByContainer = settled.flatMap((result) =>
    result.status === "fulfilled" ? [result.value] : [],
  );
  if (sidecarsByContainer.length === sidecars.length) return new Map(sidecarsByContainer);
  await Promise.all(sidecarsByContainer.map(([, sidecar]) => sidecar.close()));
  await Promise.all(connections); // Throws the error of the connection that failed.
  return new Map();
}

async function readSubscribers(sidecarsByContainer: Sidecars): Promise<readonly Subscriber[]> {
  return Promise.all(
    [...sidecarsByContainer].map(async ([container, sidecar]) => {
      const info = await sidecar.info();
      const problem = subscriptionProblem(info);
      if (problem !== undefined) throw toRejection(buildHookName(container, info), "Info", problem);
      return { container, info };
    }),
  );
}

function parseRoot(hook: string, xml: string): XmlElement {
  const parsed = readXml(xml);
  if (!parsed.ok) throw toRejection(hook, "OnDefineDomain", parsed.reason);
  if (parsed.root.name === "domain") return parsed.root;
  throw toRejection(
    hook,
    "OnDefineDomain",
    `its root element is ${parsed.root.name.slice(0, 63)} instead of domain`,
  );
}

function applyAnswer(
  { hook }: Subscription,
  { input, answer }: { readonly input: XmlElement; readonly answer: string },
  { vmi, hookNics }: HookRequest,
): XmlElement {
  const { root, changes } = mergeDomain(input, parseRoot(hook, answer));
  const refused = refusedChanges(changes, vmi.spec, new Set(hookNics));
  if (refused.length === 0) return root;
  const printedChanges = refused
    .slice(0, LISTED_CHANGES_MAX)
    .map(({ where, message }) => `${where}: ${message}`);
  const more = refused.length - printedChanges.length;
  const reason = [...printedChanges, more === 0 ? [] : `and ${String(more)} more`]
    .flat()
    .join("; ");
  throw toRejection(hook, "OnDefineDomain", reason);
}

async function mutateDomainOnce(
  request: DomainRequest,
  sidecarsByContainer: Sidecars,
  subscriptions: readonly Subscription[],
): Promise<readonly XmlElement[]> {
  const vmi = JSON.stringify(request.vmi);
  const domains: XmlElement[] = [];
  let input = parseRoot("of ours", request.domainXml);
  for (const subscription of subscriptions) {
    const { container, version } = subscription;
    const hookRequest = { version, domainXml: writeXml(input), vmi };
    const answer = await sidecarsByContainer.get(container)?.onDefineDomain(hookRequest);
    input = applyAnswer(subscription, { input, answer: answer ?? "" }, request);
    domains.push(input);
  }
  return domains;
}

/** Rejects a hook that answered two calls with the same input differently, because each start attempt would then define another domain. */
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
    const reason = `it returned different answers for the same domain${where}; make its answer depend only on its input`;
    throw toRejection(hook, "OnDefineDomain", reason);
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
 * Returns the domain and the cloud-init data as changed by the hooks. Calls each hook twice, to reject hooks whose answers differ.
 * @throws AppError with HOOK_UNREACHABLE, HOOK_TIMED_OUT, HOOK_FAILED, HOOK_ANSWER_REFUSED, OS_FILE_FAILED, OS_PATH_REFUSED
 */
export async function callHooks(request: HookRequest, hooks: HookSidecars): Promise<HookAnswers> {
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

/** Calls the hooks that subscribe to Shutdown. @throws the same errors as {@link callHooks} */
export async function notifyEnd(hookedPod: HookedPod, hooks: HookSidecars): Promise<void> {
  const sidecarsByContainer = await connectAll(hookedPod, hooks);
  try {
    const subscribers = await readSubscribers(sidecarsByContainer);
    for (const { container } of subscribersAt("Shutdown", subscribers)) {
      await sidecarsByContainer.get(container)?.shutdown();
    }
  } finally {
    await Promise.all([...sidecarsByContainer.values()].map((sidecar) => sidecar.close()));
  }
}
