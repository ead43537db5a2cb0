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
} from "@patchbay/core";
import type { HookSidecar } from "@patchbay/core/ports";

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
async function pass(given: HookedCloudInit, request: Request): Promise<readonly HookedCloudInit[]> {
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
  const first = await pass(given, request);
  const second = await pass(given, request);
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
export async function askCloudInit(
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
