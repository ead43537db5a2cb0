// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import { createFakeClock } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createHookSidecars } from "./hook-sidecars.ts";

const POD = { namespace: "ns1", name: "pod", uid: "u1" };

function fileError(errno: string): AppError {
  return new AppError("OS_FILE_FAILED", { call: "open", path: "/pods/u1", reason: "no", errno });
}

test.each([
  { name: "a missing socket", error: fileError("ENOENT"), want: "HOOK_UNREACHABLE" },
  { name: "a volume that is a file", error: fileError("ENOTDIR"), want: "HOOK_UNREACHABLE" },
  {
    name: "a process without free descriptors",
    error: fileError("EMFILE"),
    want: "OS_FILE_FAILED",
  },
  { name: "a failing disk", error: fileError("EIO"), want: "OS_FILE_FAILED" },
  {
    name: "a socket that is a link",
    error: new AppError("OS_PATH_REFUSED", { path: "/pods/u1", reason: "a link in it" }),
    want: "OS_PATH_REFUSED",
  },
])("reports $name as $want", async ({ error, want }) => {
  const hooks = createHookSidecars({
    clock: createFakeClock(),
    starter: { start: () => Promise.reject(new Error("a child was started")) },
    openSocket: () => {
      throw error;
    },
  });
  await expect(hooks.connect(POD, "hook-sidecar-0")).rejects.toMatchObject({
    code: want,
    message: expect.stringContaining(error.message) as string,
  });
});
