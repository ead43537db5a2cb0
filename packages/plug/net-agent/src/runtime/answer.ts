// SPDX-License-Identifier: Apache-2.0
// Which request gets which answer? Paths and bodies are those of Multus' daemon, whose programs may ask here too; our own
// plugin asks for an answer that it can print as it is. Source: Multus pkg/server, pkg/server/api.
import { parseJson } from "@patchbay/api";
import { parsePluginCall, pluginFailureOf, printResult, type PluginCall } from "@patchbay/cni";
import type { CniResult } from "@patchbay/core/ports";
import { addPod } from "./add.ts";
import { checkPod, checkReady } from "./check.ts";
import { delegate } from "./delegate.ts";
import type { RuntimeDeps } from "./deps.ts";
import { collectGarbage, removePod } from "./release.ts";

/** A request that has come whole. */
export interface RuntimeRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly body: string;
}

/** JSON text, or none. */
export interface RuntimeAnswer {
  readonly status: number;
  readonly body: string;
}

const DONE: RuntimeAnswer = { status: 200, body: "" };
const NOT_FOUND: RuntimeAnswer = { status: 404, body: "" };
const WRONG_METHOD: RuntimeAnswer = { status: 405, body: "" };
/** What Multus' programs read a result as. Source: Multus pkg/server/api Response. */
const MULTUS_VERSION = "1.0.0";

async function answerCall(call: PluginCall, deps: RuntimeDeps): Promise<CniResult | undefined> {
  switch (call.command) {
    case "ADD":
      return addPod(call, deps);
    case "DEL":
      await removePod(call, deps);
      return undefined;
    case "CHECK":
      await checkPod(call, deps);
      return undefined;
    case "GC":
      await collectGarbage(call, deps);
      return undefined;
    case "STATUS":
      await checkReady(deps);
      return undefined;
  }
}

function say(result: CniResult | undefined, call: PluginCall, isPlugin: boolean): RuntimeAnswer {
  if (result === undefined) return DONE;
  const answer = isPlugin
    ? printResult(result, call.cniVersion)
    : { Result: printResult(result, MULTUS_VERSION) };
  return { status: 200, body: JSON.stringify(answer) };
}

async function work(
  { url, body }: RuntimeRequest,
  perform: typeof answerCall,
  deps: RuntimeDeps,
): Promise<RuntimeAnswer> {
  let call: PluginCall | undefined;
  try {
    call = parsePluginCall(parseJson(body));
    return say(await perform(call, deps), call, url.endsWith("?answer=plugin"));
  } catch (error) {
    const { command, containerId = "", pod } = call ?? {};
    const failure = pluginFailureOf(error, call?.cniVersion);
    const key = pod && `${pod.namespace}/${pod.name}`;
    deps.log.warn("call of the container runtime failed", {
      pod: key,
      action: command,
      sandbox: containerId,
      code: failure.code,
      reason: failure.msg,
    });
    return { status: 400, body: JSON.stringify(failure) };
  }
}

/** Does what a request asks for; never throws. */
export async function answer(request: RuntimeRequest, deps: RuntimeDeps): Promise<RuntimeAnswer> {
  const [path = ""] = request.url.split("?", 1);
  if (path === "/healthz" || path === "/readyz") return DONE;
  if (path !== "/cni" && path !== "/delegate") return NOT_FOUND;
  if (request.method !== "POST") return WRONG_METHOD;
  return work(request, path === "/cni" ? answerCall : delegate, deps);
}
