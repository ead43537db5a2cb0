// SPDX-License-Identifier: Apache-2.0
import type { RegistryCredentials } from "@patchbay/core/interfaces";
import { createFakeFiles, type FakeFiles } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { createGrants, type Grants } from "./access.ts";

const IMAGE = { id: "sha256:1", repository: "reg/a" };
const FILE = "/images/sha256%3A1";
const ME = { username: "me", password: "pw" };

let files: FakeFiles;
let grants: Grants;

/** The grants of another process with the same files. */
function restart(): void {
  grants = createGrants({ files, log: createFakeLogger(), directory: "/images" });
}

beforeEach(() => {
  files = createFakeFiles();
  restart();
});

describe("the grant for a pulled image", () => {
  test("is public for an anonymous pull, also after a restart", async () => {
    expect(await grants.isPublic(IMAGE)).toBe(false);
    await grants.addGrant(IMAGE, undefined);
    expect(await grants.isPublic(IMAGE)).toBe(true);
    restart();
    expect(await grants.isPublic(IMAGE)).toBe(true);
    expect(await grants.hasGrantFor(IMAGE, [ME])).toBe(false);
  });

  test.each<{ name: string; shown: readonly RegistryCredentials[]; image?: object; want: boolean }>(
    [
      { name: "the same credentials", shown: [{ username: "x" }, ME], want: true },
      { name: "none", shown: [], want: false },
      { name: "another password", shown: [{ ...ME, password: "other" }], want: false },
      { name: "another user", shown: [{ ...ME, username: "other" }], want: false },
      { name: "a token", shown: [{ identityToken: "pw" }], want: false },
      { name: "the same for another image", shown: [ME], image: { id: "sha256:2" }, want: false },
      {
        name: "the same for another repository",
        shown: [ME],
        image: { repository: "reg/b" },
        want: false,
      },
    ],
  )("to credentials applies to $name: $want", async ({ shown, image, want }) => {
    await grants.addGrant(IMAGE, ME);
    expect(await grants.isPublic(IMAGE)).toBe(false);
    for (const run of [1, 2]) {
      expect([run, await grants.hasGrantFor({ ...IMAGE, ...image }, shown)]).toEqual([run, want]);
      restart();
    }
  });

  test("is stored for every repository and for the latest 64 credentials", async () => {
    const user = (number: number): RegistryCredentials => ({ username: String(number) });
    await grants.addGrant({ ...IMAGE, repository: "reg/b" }, undefined);
    for (let number = 0; number < 64; number += 1) await grants.addGrant(IMAGE, user(number));
    await grants.addGrant(IMAGE, user(0));
    await grants.addGrant(IMAGE, user(64));
    const shown = [0, 1, 2, 64].map((number) => grants.hasGrantFor(IMAGE, [user(number)]));
    expect(await Promise.all(shown)).toEqual([true, false, true, true]);
    expect(await grants.isPublic({ ...IMAGE, repository: "reg/b" })).toBe(true);
  });

  test("is not lost while its file is read", async () => {
    const read = Promise.withResolvers<string | undefined>();
    files.readText = () => read.promise;
    const early = grants.isPublic(IMAGE);
    const given = grants.addGrant(IMAGE, undefined);
    read.resolve(undefined);
    await Promise.all([early, given]);
    expect(await grants.isPublic(IMAGE)).toBe(true);
  });
});

describe("a file grants nothing when it contains", () => {
  test.each(["", "{", "[]", "null", '{"reg/a":"x"}', '{"reg/a":{"anyone":"yes"}}'])(
    "%j",
    async (text) => {
      await files.writeAtomic(FILE, text);
      expect(await grants.isPublic(IMAGE)).toBe(false);
      expect(await grants.hasGrantFor(IMAGE, [ME])).toBe(false);
    },
  );

  test("credentials that are not hashes, which the next grant drops", async () => {
    await files.writeAtomic(FILE, '{"reg/a":{"anyone":true,"credentials":[1,"hash"]}}');
    await grants.addGrant(IMAGE, ME);
    const kept = JSON.parse((await files.readText(FILE)) ?? "") as object;
    expect(kept).toEqual({
      "reg/a": { anyone: true, credentials: ["hash", expect.stringMatching(/^[\da-f]{64}$/)] },
    });
  });

  test("an invalid list of credentials", async () => {
    await files.writeAtomic(FILE, '{"reg/a":{"anyone":true,"credentials":"x"}}');
    expect(await grants.isPublic(IMAGE)).toBe(true);
    expect(await grants.hasGrantFor(IMAGE, [ME])).toBe(false);
  });
});

test("deletes grants of removed images, in the files and in memory", async () => {
  const other = { ...IMAGE, id: "sha256:2" };
  await grants.addGrant(IMAGE, undefined);
  await grants.addGrant(other, undefined);
  await grants.retainOnly(new Set([other.id]));
  expect(files.paths).toEqual(["/images/sha256%3A2"]);
  expect(await grants.isPublic(IMAGE)).toBe(false);
  expect(await grants.isPublic(other)).toBe(true);
});

test("a grant that cannot be written applies until the process ends", async () => {
  const log = createFakeLogger();
  files.writeAtomic = () => Promise.reject(new Error("disk full"));
  grants = createGrants({ files, log, directory: "/images" });
  await grants.addGrant(IMAGE, undefined);
  expect(await grants.isPublic(IMAGE)).toBe(true);
  expect(log.lines.map(({ fields }) => fields)).toEqual([
    { object: "sha256:1", reason: "disk full" },
  ]);
  restart();
  expect(await grants.isPublic(IMAGE)).toBe(false);
});
