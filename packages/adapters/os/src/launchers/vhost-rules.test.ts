// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import {
  chooseDirectoryAccess,
  isConnectable,
  isDirectoryId,
  launcherPathRelativeToRun,
  socketRelativeToRun,
  computeSocketId,
  findSocketRefusal,
} from "./vhost-rules.ts";

const MADE = "/run/patchbay/vhost-user";
const SHOWN = "/run/patchbay/vhost-user-shown";

test("a socket has a path below /run in the dataplane's and in the launcher's directory", () => {
  expect(socketRelativeToRun(`${MADE}/d/one`)).toBe("patchbay/vhost-user/d/one");
  expect(launcherPathRelativeToRun(`${MADE}/d/one`)).toBe("patchbay/vhost-user-shown/d/one");
});

test.each([MADE, `${SHOWN}/d/one`, "/run/other", ""])(
  "rejects %j as the path of a socket",
  (path) => {
    for (const find of [socketRelativeToRun, launcherPathRelativeToRun]) {
      expect(() => find(path)).toThrow(
        expect.objectContaining({
          code: "OS_PATH_REFUSED",
          details: { path, reason: `it is not below ${MADE}` },
        }) as Error,
      );
    }
  },
);

describe("the ID of a socket", () => {
  const status = { ino: 7n, birthtimeNs: 1_700_000_000_000_000_000n };
  test.each([
    { name: "another inode", next: { ...status, ino: 8n } },
    { name: "another birth time", next: { ...status, birthtimeNs: status.birthtimeNs + 1n } },
  ])("changes with $name", ({ next }) => {
    expect(computeSocketId(status)).toBe(computeSocketId({ ...status }));
    expect(computeSocketId(next)).not.toBe(computeSocketId(status));
  });

  test("is a safe integer for any inode", () => {
    const id = computeSocketId({ ino: 2n ** 64n - 1n, birthtimeNs: 2n ** 63n });
    expect(Number.isSafeInteger(id) && id >= 0).toBe(true);
  });
});

describe("a file in place of a socket", () => {
  const file = { isSocket: () => true, uid: 0n, gid: 0n };
  const foreign =
    "its group is 902, not the dataplane's (900): it was made elsewhere, or by somebody else";
  test.each([
    { name: "is used if root created it", status: {}, group: 0, want: undefined },
    { name: "is used with any group if root creates the sockets", status: { gid: 902n }, group: 0 },
    {
      name: "is used if it has the dataplane's group",
      status: { uid: 901n, gid: 900n },
      group: 900,
    },
    { name: "is used if it was shared before", status: { gid: 107n }, group: 900 },
    {
      name: "is rejected if it has a foreign group",
      status: { uid: 901n, gid: 902n },
      group: 900,
      want: foreign,
    },
    {
      name: "is rejected if the launcher created it",
      status: { uid: 107n },
      group: 0,
      want: "the launcher has made it, not the dataplane",
    },
    {
      name: "is rejected if it is not a socket",
      status: { isSocket: () => false },
      group: 0,
      want: "it is no socket",
    },
  ])("$name", ({ status, group, want }) => {
    expect(findSocketRefusal({ ...file, ...status }, { uid: 107, dataplaneGroup: group })).toBe(
      want,
    );
  });

  test("of any group is used if no dataplane group is set", () => {
    expect(findSocketRefusal({ ...file, gid: 902n }, { uid: 107 })).toBeUndefined();
  });

  test.each([
    { gid: 107n, mode: 0o140_660n, want: true },
    { gid: 107n, mode: 0o140_640n, want: false },
    { gid: 107n, mode: 0o140_620n, want: false },
    { gid: 0n, mode: 0o140_666n, want: false },
  ])("with group $gid and mode $mode: launchers may connect: $want", ({ want, ...status }) => {
    expect(isConnectable(status, { uid: 107 })).toBe(want);
  });
});

test.each([
  { parent: SHOWN, owners: { uid: 107, dataplaneGroup: 900 }, want: { gid: 107, mode: 0o750 } },
  { parent: MADE, owners: { uid: 107 }, want: { gid: 0, mode: 0o750 } },
  { parent: MADE, owners: { uid: 107, dataplaneGroup: 0 }, want: { gid: 0, mode: 0o750 } },
  { parent: MADE, owners: { uid: 107, dataplaneGroup: 900 }, want: { gid: 900, mode: 0o2770 } },
])("a directory in $parent with $owners has $want", ({ parent, owners, want }) => {
  expect(chooseDirectoryAccess(parent, owners)).toEqual(want);
});

test.each([
  ...["a", "9a_b.c-d", "A".repeat(64)].map((id) => ({ id, want: true })),
  ...["", ".a", "-a", "a/b", "a b", "A".repeat(65), "..", "a\n"].map((id) => ({ id, want: false })),
])("$id is a valid directory name: $want", ({ id, want }) => {
  expect(isDirectoryId(id)).toBe(want);
});
