// SPDX-License-Identifier: Apache-2.0
// What did a container say before it failed? The end of its log, where it asks for that.
import { openGrowingFile, sizeOfFile } from "@patchbay/os";
import { parseRecord } from "../../kubelet-api/logs/record.ts";
import { containersOf, type ContainerFacts, type LivePodFacts } from "../facts.ts";

/** Most of a message, bytes and lines. Source: Kubernetes kubecontainer, MaxContainerTerminationMessageLogLength and …LogLines. */
const MESSAGE_BYTES = 2048;
const MESSAGE_LINES = 80;
/** Of a log's end: with the times before its lines, bytes. */
const TAIL_BYTES = 16 * 1024;
const NEWLINE = "\n";

function textOf(line: string): string {
  const record = parseRecord(Buffer.from(line, "latin1"));
  return record === undefined
    ? ""
    : record.text.toString("latin1") + (record.isPartial ? "" : NEWLINE);
}

/** The last lines of a piece of a log that may begin in the middle of one. */
export function lastWordsOf(tail: Buffer): string {
  // One byte is one character until the end, so that no length changes.
  const said = tail.toString("latin1").split(NEWLINE).map(textOf).join("").trimEnd();
  const lines = said.split(NEWLINE).slice(-MESSAGE_LINES).join(NEWLINE);
  return Buffer.from(lines.slice(-MESSAGE_BYTES), "latin1").toString("utf8");
}

async function readTail(path: string): Promise<Buffer> {
  const [size, file] = await Promise.all([sizeOfFile(path), openGrowingFile(path)]);
  if (size === undefined || file === undefined) {
    await file?.close();
    return Buffer.alloc(0);
  }
  try {
    return await file.read(Math.max(0, size - TAIL_BYTES), TAIL_BYTES);
  } finally {
    await file.close();
  }
}

function hasFailedInSilence({ state, exitCode, message }: ContainerFacts): boolean {
  return state === "EXITED" && exitCode !== 0 && message === "";
}

/** The pod's containers; those that failed and have `FallbackToLogsOnError` with their last words as message. */
export async function withLastWords({
  pod,
  containers,
}: LivePodFacts): Promise<readonly ContainerFacts[]> {
  const asking = new Set(
    containersOf(pod)
      .filter(
        ({ terminationMessagePolicy }) => terminationMessagePolicy === "FallbackToLogsOnError",
      )
      .map(({ name }) => name),
  );
  return Promise.all(
    containers.map(async (one) => {
      if (!asking.has(one.name) || !hasFailedInSilence(one)) return one;
      return { ...one, message: lastWordsOf(await readTail(one.logPath)) };
    }),
  );
}
