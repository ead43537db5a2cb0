// SPDX-License-Identifier: Apache-2.0
// Serves the subresource vnc/screenshot, which returns a VMI's screen as PNG. Source: KubeVirt pkg/virt-api/rest/vnc.go.
import { Worker } from "node:worker_threads";
import { VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import { AppError, type Rate, SHARE_KEYS, SharePool, tryAcquireAll } from "@patchbay/base";
import { checkGuestStream } from "@patchbay/core/guest";
import type { Deps } from "../deps.ts";
import {
  buildStreamPath,
  withHandler,
  type HandlerAccess,
  type TakeScreenshot,
} from "../handlers/client.ts";
import {
  toFailureAnswer,
  toNodeAnswer,
  toNotFoundAnswer,
  toRefusalAnswer,
  type Answer,
  type CallHandler,
  type ObjectRef,
} from "../http/calls.ts";
import type { ScreenshotRequest, ScreenshotResult } from "./worker.ts";

/** Time limit of a screenshot in milliseconds. A large picture takes about a second. */
const SCREENSHOT_TIMEOUT_MS = 10_000;
const WORKER_LIMITS = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16 };

const isSource = import.meta.url.endsWith(".ts");
const workerModule = isSource
  ? new URL("./worker.ts", import.meta.url)
  : new URL("./worker.js", import.meta.url);

/** Captures the screen in a thread, which is terminated after the time limit whatever it does. */
async function runWorker(request: ScreenshotRequest): Promise<ScreenshotResult> {
  const { promise, resolve, reject } = Promise.withResolvers<ScreenshotResult>();
  const worker = new Worker(workerModule, {
    workerData: request,
    resourceLimits: WORKER_LIMITS,
    execArgv: isSource ? ["--conditions=@patchbay/source"] : [],
  });
  worker.once("message", resolve);
  worker.once("error", reject);
  worker.once("exit", (code) => {
    reject(new Error(`the thread ended with code ${String(code)}`));
  });
  const timeout = AbortSignal.timeout(SCREENSHOT_TIMEOUT_MS);
  const abort = (): void => {
    resolve({ unreadable: `no picture within ${String(SCREENSHOT_TIMEOUT_MS)} ms` });
  };
  timeout.addEventListener("abort", abort, { once: true });
  try {
    return await promise;
  } finally {
    timeout.removeEventListener("abort", abort);
    await worker.terminate();
  }
}

export function createTakeScreenshot(access: HandlerAccess): TakeScreenshot {
  return async (node, key, options) => {
    const stream = { stream: "vnc", preservesSession: true, sharesScreen: true } as const;
    const path = buildStreamPath(key, stream);
    const result = await withHandler(access, node, async (address, credentials) => {
      const request = { kind: "screenshot", ...address, ...options, path, credentials } as const;
      const captured = await runWorker(request);
      if ("failed" in captured) throw new Error(captured.failed);
      return captured;
    });
    if ("unreadable" in result)
      throw new AppError("API_SCREEN_UNREADABLE", { reason: result.unreadable });
    return result;
  };
}

/** Limits on concurrent screenshots, of which each VMI has one. */
const SCREENSHOT_LIMITS = { max: 4, share: 2 };
/** Screenshots by one user. Each takes a tenth of a second of a core. */
export const SCREENSHOT_RATE: Rate = { burst: 10, perSecond: 0.2 };

function toBusyAnswer(objectRef: ObjectRef): Answer {
  const message = "too many screenshots are being taken; try again later";
  return toFailureAnswer({ code: 429, message, objectRef });
}

/** Responds with a picture of the guest's screen. Other clients of the screen remain connected. Errors have KubeVirt's messages. */
export function screenshot(deps: Deps): CallHandler {
  const namespaces = new SharePool(SCREENSHOT_LIMITS);
  const vmis = new SharePool({ max: SCREENSHOT_LIMITS.max, share: 1 });
  const take: CallHandler = async ({ namespace, name, query, user }) => {
    const objectRef = { type: VIRTUAL_MACHINE_INSTANCES, name };
    const key = { namespace, name };
    const vmi = await deps.store.find(VIRTUAL_MACHINE_INSTANCES, key);
    if (vmi === undefined) return toNotFoundAnswer(objectRef);
    const problem = checkGuestStream(vmi, "vnc");
    if (problem !== undefined) return toRefusalAnswer(problem, objectRef);
    const movesCursor = query.get("moveCursor") === "true";
    const taken = await deps.takeScreenshot(vmi.status?.nodeName ?? "", key, { movesCursor });
    if ("refused" in taken) return toNodeAnswer(taken.refused, objectRef);
    deps.log.info("took a picture of a screen", { vmi: `${namespace}/${name}`, user: user.name });
    const { buffer, byteOffset, byteLength } = taken.png;
    return { code: 200, body: Buffer.from(buffer, byteOffset, byteLength), type: "image/png" };
  };
  return async (call) => {
    const { namespace, name, user } = call;
    const isTooSoon = deps.screenshotRate.tryProceed(SHARE_KEYS.user(user)) > 0;
    if (isTooSoon) return toBusyAnswer({ type: VIRTUAL_MACHINE_INSTANCES, name });
    const release = tryAcquireAll([
      [vmis, SHARE_KEYS.object({ namespace, name })],
      [namespaces, SHARE_KEYS.namespace(namespace)],
    ]);
    if (release === undefined) return toBusyAnswer({ type: VIRTUAL_MACHINE_INSTANCES, name });
    return take(call).finally(release);
  };
}
