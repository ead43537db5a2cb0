// SPDX-License-Identifier: Apache-2.0
// Is a sandbox as its ADD left it, and could another be made? By the journal, and by the plugins of its networks.
import { CNI_CODES, type PluginCall } from "@patchbay/cni";
import { AppError, isAppError, messageOf } from "@patchbay/core";
import { listLinks } from "../reconcilers/pod/attachment/netns.ts";
import { findVmiOf } from "../reconcilers/pod/launcher.ts";
import { checkAttachment } from "../reconcilers/upkeep/attachments.ts";
import type { RuntimeDeps } from "./deps.ts";
import { factsOf, rowsOf } from "./facts.ts";

/** As plugins say it of their own. Source: CNI SPEC 1.1 section 5, codes from 100 on. */
const NOT_AS_MADE = 100;

function refuse(reason: string): never {
  throw new AppError("CNI_CALL_INVALID", { reason, cniCode: NOT_AS_MADE });
}

/**
 * Answers CHECK. The NICs of a launcher need only be there: their addresses are its guest's, and their plugins would miss them.
 * @throws AppError with CNI_CALL_INVALID, which names what is missing, and with what the plugins find
 */
export function checkPod(call: PluginCall, deps: RuntimeDeps): Promise<void> {
  const { containerId, pod } = call;
  const uid = pod?.uid ?? "";
  return deps.podMutex.runExclusive(uid, async () => {
    const facts = await factsOf(call, deps);
    const rows = (await rowsOf({ uid, containerId }, deps)).filter(
      ({ state }) => state === "attached",
    );
    if (!rows.some(({ isDefault }) => isDefault === true)) refuse("it has no default network");
    const nics = new Set((await listLinks(facts, deps)).map(({ name }) => name));
    const missing = rows.filter(({ request }) => !nics.has(request.interfaceName));
    const names = missing.map(({ network, request }) => `${request.interfaceName} of ${network}`);
    if (names.length > 0) refuse(`the sandbox has lost ${names.join(", ")}`);
    if ((await findVmiOf(facts.pod, deps)) !== undefined) return;
    for (const row of rows) await checkAttachment(row, deps);
  });
}

/** A plugin that says so knows that what is attached suffers as well; whatever else is wrong, no pod can be attached. */
function readinessCodeOf(error: unknown): number {
  const isLimited = isAppError(error) && error.details["cniCode"] === CNI_CODES.limitedConnectivity;
  return isLimited ? CNI_CODES.limitedConnectivity : CNI_CODES.notAvailable;
}

/**
 * Answers STATUS by the default network, without which no pod starts. Of networks that only some pods ask for their events
 * tell: a tenant's must not keep everybody's pods from the node.
 * @throws AppError with CNI_CALL_INVALID, whose code says that no pod can be attached
 */
export async function checkReady(deps: RuntimeDeps): Promise<void> {
  try {
    await deps.cni.status(await deps.readDefaultNetwork());
  } catch (error) {
    const reason = messageOf(error);
    throw new AppError("CNI_CALL_INVALID", { reason, cniCode: readinessCodeOf(error) });
  }
}
