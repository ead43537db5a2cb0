// SPDX-License-Identifier: Apache-2.0
import type { Secret } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { selectCredentials } from "./credentials.ts";

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}

function aSecret(data: Readonly<Record<string, string>>): Secret {
  const encoded = Object.entries(data).map(([key, text]) => [key, base64(text)] as const);
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "pull", namespace: "ns1" },
    data: Object.fromEntries(encoded),
  };
}

function withAuths(auths: Readonly<Record<string, object>>): Secret {
  return aSecret({ ".dockerconfigjson": JSON.stringify({ auths }) });
}

const ME = { username: "me", password: "pw" };

describe("the registry of an image", () => {
  test.each([
    { registry: "reg.example:5000", reference: "reg.example:5000/team/x:1", matchesWildcard: true },
    {
      registry: "reg.example:5000",
      reference: "reg.example:5001/team/x:1",
      matchesWildcard: false,
    },
    { registry: "https://reg.example/v1/", reference: "reg.example/team/x", matchesWildcard: true },
    {
      registry: "http://reg.example/v2/",
      reference: "reg.example/team/x@sha256:0",
      matchesWildcard: true,
    },
    { registry: "reg.example/team", reference: "reg.example/team/x", matchesWildcard: true },
    { registry: "reg.example/team", reference: "reg.example/team2/x", matchesWildcard: false },
    { registry: "reg.example/team/x", reference: "reg.example/team/x:1", matchesWildcard: true },
    { registry: "*.example.org", reference: "a.example.org/x", matchesWildcard: true },
    { registry: "*.example.org", reference: "a.b.example.org/x", matchesWildcard: false },
    { registry: "*.example.org", reference: "example.org/x", matchesWildcard: false },
    { registry: "reg-*.example.org", reference: "reg-7.example.org/x", matchesWildcard: true },
    { registry: "a*b*c.example.org", reference: "a-b-b-c.example.org/x", matchesWildcard: true },
    { registry: "a*b*c.example.org", reference: "a-c-b.example.org/x", matchesWildcard: false },
    { registry: "a*z*c.example.org", reference: "a-b-c.example.org/x", matchesWildcard: false },
    { registry: "b*.example.org", reference: "a.example.org/x", matchesWildcard: false },
    { registry: "a*", reference: "a.example.org/x", matchesWildcard: false },
    { registry: "reg*g.example.org", reference: "reg.example.org/x", matchesWildcard: false },
    { registry: "**.example.org", reference: "a.example.org/x", matchesWildcard: true },
    { registry: "aXexample.org", reference: "a.example.org/x", matchesWildcard: false },
    { registry: "https://index.docker.io/v1/", reference: "alpine", matchesWildcard: true },
    { registry: "docker.io", reference: "team/x", matchesWildcard: true },
    { registry: "docker.io/team", reference: "alpine", matchesWildcard: false },
  ])("$registry for $reference: $matchesWildcard", ({ registry, reference, matchesWildcard }) => {
    const digest = reference.replace("@sha256:0", `@sha256:${"0".repeat(64)}`);
    expect(selectCredentials(digest, [withAuths({ [registry]: ME })])).toEqual(
      matchesWildcard ? [ME] : [],
    );
  });

  test("returns all matching credentials, most specific first", () => {
    const secrets = [
      withAuths({ "reg.example": { ...ME, username: "all" } }),
      withAuths({ "reg.example/team": ME }),
    ];
    expect(selectCredentials("reg.example/team/x", secrets)).toEqual([
      ME,
      { ...ME, username: "all" },
    ]);
  });
});

describe("supported entries", () => {
  test.each([
    { name: "name and password", entry: ME, want: [ME] },
    {
      name: "name and password in the field auth",
      entry: { auth: base64("me:p:w") },
      want: [{ ...ME, password: "p:w" }],
    },
    {
      name: "an identity token",
      entry: { ...ME, identitytoken: "t" },
      want: [{ identityToken: "t" }],
    },
    { name: "nothing", entry: {}, want: [] },
    { name: "fields that are not text", entry: { username: 1, auth: [] }, want: [] },
  ])("$name", ({ entry, want }) => {
    expect(selectCredentials("reg.example/x", [withAuths({ "reg.example": entry })])).toEqual(want);
  });

  test("dockercfg secrets", () => {
    const secret = aSecret({ ".dockercfg": JSON.stringify({ "reg.example": ME }) });
    expect(selectCredentials("reg.example/x", [secret])).toEqual([ME]);
  });

  test.each(["", "{", "[]", '{"auths":[]}', '{"auths":{"reg.example":"x"}}'])(
    "nothing in %j",
    (text) => {
      expect(selectCredentials("reg.example/x", [aSecret({ ".dockerconfigjson": text })])).toEqual(
        [],
      );
      expect(selectCredentials("reg.example/x", [aSecret({})])).toEqual([]);
    },
  );
});
