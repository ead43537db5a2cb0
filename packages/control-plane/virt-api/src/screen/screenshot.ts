// SPDX-License-Identifier: Apache-2.0
// Serves the subresource vnc/screenshot, which returns a VMI's screen as PNG. Source: KubeVirt pkg/virt-api/rest/vnc.go.
import { promisify } from "node:util";
import { crc32, deflate } from "node:zlib";
import { type Picture, takePicture, type PictureOptions } from "./rfb.ts";
import type { Duplex } from "node:stream";
import { VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { checkGuestStream } from "@patchbay/core/guest";
import type { Deps } from "../deps.ts";
import {
  toNodeAnswer,
  toNotFoundAnswer,
  toRefusalAnswer,
  type Answer,
  type CallHandler,
} from "../http/calls.ts";

// PNG encoder. Source: W3C, Portable Network Graphics (PNG) Specification

const deflateAsync = promisify(deflate);
const PNG_SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const BIT_DEPTH = 8;
const TRUE_COLOR = 2;

function buildChunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  checksum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, checksum]);
}

/** Returns the image rows of the PNG. Each row starts with filter type 0 (none). */
function toRows({ width, height, pixels }: Picture): Buffer {
  const stride = 1 + width * 3;
  const rows = Buffer.alloc(stride * height);
  for (let row = 0; row < height; row += 1) {
    for (let column = 0; column < width; column += 1) {
      const offset = (row * width + column) * 4;
      pixels.copy(rows, row * stride + 1 + column * 3, offset, offset + 3);
    }
  }
  return rows;
}

export async function toPng(picture: Picture): Promise<Buffer> {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(picture.width, 0);
  header.writeUInt32BE(picture.height, 4);
  header.writeUInt8(BIT_DEPTH, 8);
  header.writeUInt8(TRUE_COLOR, 9);
  return Buffer.concat([
    PNG_SIGNATURE,
    buildChunk("IHDR", header),
    buildChunk("IDAT", await deflateAsync(toRows(picture))),
    buildChunk("IEND", Buffer.alloc(0)),
  ]);
}

/** Time limit of a screenshot in milliseconds. A large picture takes about a second. */
const SCREENSHOT_TIMEOUT_MS = 10_000;

async function takeScreenshot(screen: Duplex, options: PictureOptions): Promise<Answer> {
  const timeout = AbortSignal.timeout(SCREENSHOT_TIMEOUT_MS);
  const abort = (): void => {
    const reason = `no picture within ${String(SCREENSHOT_TIMEOUT_MS)} ms`;
    screen.destroy(new AppError("API_SCREEN_UNREADABLE", { reason }));
  };
  timeout.addEventListener("abort", abort, { once: true });
  try {
    const picture = await takePicture(screen, options);
    return { code: 200, body: await toPng(picture), type: "image/png" };
  } finally {
    timeout.removeEventListener("abort", abort);
    screen.destroy();
  }
}

/** Responds with a picture of the guest's screen. Other clients of the screen remain connected. Errors have KubeVirt's messages. */
export function screenshot(deps: Deps): CallHandler {
  return async (call) => {
    const objectRef = { type: VIRTUAL_MACHINE_INSTANCES, name: call.name };
    const key = { namespace: call.namespace, name: call.name };
    const vmi = await deps.store.find(VIRTUAL_MACHINE_INSTANCES, key);
    if (vmi === undefined) return toNotFoundAnswer(objectRef);
    const problem = checkGuestStream(vmi, "vnc");
    if (problem !== undefined) return toRefusalAnswer(problem, objectRef);
    const request = { stream: "vnc", preservesSession: true, sharesScreen: true } as const;
    const opened = await deps.openHandlerStream(vmi.status?.nodeName ?? "", key, request);
    if ("refused" in opened) return toNodeAnswer(opened.refused, objectRef);
    deps.log.info("took a picture of a screen", {
      vmi: `${call.namespace}/${call.name}`,
      user: call.user.name,
    });
    return takeScreenshot(opened.stream, { movesCursor: call.query.get("moveCursor") === "true" });
  };
}
