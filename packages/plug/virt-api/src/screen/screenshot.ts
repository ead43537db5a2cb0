// SPDX-License-Identifier: Apache-2.0
// vnc/screenshot of a VMI: a picture of its screen as PNG. Source: KubeVirt pkg/virt-api/rest/vnc.go.
import type { Duplex } from "node:stream";
import { VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import { AppError, guestStreamProblem } from "@patchbay/core";
import type { Deps } from "../deps.ts";
import { toNodeAnswer, toNotFoundAnswer, toRefusalAnswer, type Answer } from "../http/answers.ts";
import { toPng } from "./png.ts";
import { takePicture, type PictureOptions } from "./rfb.ts";
import type { CallHandler } from "../routes/call.ts";

/** A screen answers in milliseconds; a large one takes a second to come. */
const TIMEOUT_MS = 10_000;

async function pictureOf(screen: Duplex, options: PictureOptions): Promise<Answer> {
  const late = AbortSignal.timeout(TIMEOUT_MS);
  const end = (): void => {
    const reason = `no picture within ${String(TIMEOUT_MS)} ms`;
    screen.destroy(new AppError("API_SCREEN_UNREADABLE", { reason }));
  };
  late.addEventListener("abort", end, { once: true });
  try {
    const picture = await takePicture(screen, options);
    return { code: 200, body: await toPng(picture), type: "image/png" };
  } finally {
    late.removeEventListener("abort", end);
    screen.destroy();
  }
}

/** Answers 200 with the picture, whoever looks at the screen meanwhile; refuses in KubeVirt's words. */
export function screenshot(deps: Deps): CallHandler {
  return async (call) => {
    const about = { type: VIRTUAL_MACHINE_INSTANCES, name: call.name };
    const key = { namespace: call.namespace, name: call.name };
    const vmi = await deps.store.find(VIRTUAL_MACHINE_INSTANCES, key);
    if (vmi === undefined) return toNotFoundAnswer(about);
    const problem = guestStreamProblem(vmi, "vnc");
    if (problem !== undefined) return toRefusalAnswer(problem, about);
    const request = { stream: "vnc", preservesSession: true, isBeside: true } as const;
    const opened = await deps.openHandlerStream(vmi.status?.nodeName ?? "", key, request);
    if ("refused" in opened) return toNodeAnswer(opened.refused, about);
    deps.log.info("took a picture of a screen", {
      vmi: `${call.namespace}/${call.name}`,
      user: call.user.name,
    });
    return pictureOf(opened.stream, { movesCursor: call.query.get("moveCursor") === "true" });
  };
}
