// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { hasCapability, parseNetworkConfig, printPluginConfig, withCniArgs } from "./formats.ts";

const parse = (config: unknown): ReturnType<typeof parseNetworkConfig> =>
  parseNetworkConfig(JSON.stringify(config), "net1");

describe("a network configuration", () => {
  test.each([
    {
      name: "one plugin becomes a list and gets the object's name",
      input: { type: "mynet", cniVersion: "0.2.0" },
      want: {
        cniVersion: "0.2.0",
        name: "net1",
        plugins: [{ type: "mynet", cniVersion: "0.2.0" }],
      },
    },
    {
      name: "its own name is retained if the object has a different name",
      input: { type: "mynet", name: "other", cniVersion: "1.0.0" },
      want: {
        cniVersion: "1.0.0",
        name: "other",
        plugins: [{ type: "mynet", name: "other", cniVersion: "1.0.0" }],
      },
    },
    {
      name: "a list keeps its order and unknown keys",
      input: {
        cniVersion: "1.0.0",
        name: "l",
        disableCheck: true,
        plugins: [{ type: "bridge", x: { y: 1 } }, { type: "tuning" }],
      },
      want: {
        cniVersion: "1.0.0",
        name: "l",
        disableCheck: true,
        plugins: [{ type: "bridge", x: { y: 1 } }, { type: "tuning" }],
      },
    },
    {
      name: "without a version it gets the oldest version",
      input: { plugins: [{ type: "a" }] },
      want: { cniVersion: "0.1.0", name: "net1", plugins: [{ type: "a" }] },
    },
    {
      name: "with several versions it gets the newest supported one",
      input: {
        cniVersion: "0.4.0",
        cniVersions: ["0.3.1", "1.0.0", "2.0.0"],
        plugins: [{ type: "a" }],
      },
      want: { cniVersion: "1.0.0", name: "net1", plugins: [{ type: "a" }] },
    },
    {
      name: "versions may be listed without cniVersion",
      input: { cniVersions: ["0.4.0", "1.1.0"], plugins: [{ type: "a" }] },
      want: { cniVersion: "1.1.0", name: "net1", plugins: [{ type: "a" }] },
    },
  ])("is read: $name", ({ input, want }) => {
    expect(parse(input)).toEqual({ ok: true, config: want });
  });

  test.each([
    { name: "text that is not JSON", text: "{nope", fields: ["spec.config"] },
    { name: "empty", text: "", fields: ["spec.config"] },
    { name: "a list", text: "[]", fields: ["spec.config"] },
    { name: "nothing", text: "null", fields: ["spec.config"] },
    { name: "a list without plugins", text: "{}", fields: ["spec.config.plugins"] },
    { name: "an empty list of plugins", text: '{"plugins":[]}', fields: ["spec.config.plugins"] },
    {
      name: "a plugin without type and one with a path",
      text: '{"plugins":[{},{"type":"ok"},{"type":"../evil"}]}',
      fields: ["spec.config.plugins[0].type", "spec.config.plugins[2].type"],
    },
    { name: "a plugin type that is a path", text: '{"type":"a/b"}', fields: ["spec.config.type"] },
    {
      name: "several errors at once",
      text: '{"cniVersion":"9.0.0","name":"a/b","plugins":[]}',
      fields: ["spec.config.cniVersion", "spec.config.name", "spec.config.plugins"],
    },
  ])("is rejected: $name", ({ text, fields }) => {
    expect(parseNetworkConfig(text, "net1")).toMatchObject({
      ok: false,
      causes: fields.map((field) => ({ field })),
    });
  });
});

test("a plugin receives only capabilities that it declares and that have a value", () => {
  const plugin = {
    type: "noop",
    capabilities: { portMappings: true, somethingElse: true, noCapability: false, absent: true },
  };
  const list = { name: "n", cniVersion: "1.0.0" };
  const capabilityArgs = {
    portMappings: [{ hostPort: 8080 }],
    somethingElse: ["foobar"],
    noCapability: true,
    notAdded: [true],
  };
  expect(JSON.parse(printPluginConfig(plugin, list, { capabilityArgs }))).toEqual({
    ...plugin,
    ...list,
    runtimeConfig: { portMappings: [{ hostPort: 8080 }], somethingElse: ["foobar"] },
  });
});

test("the request's arguments take precedence over the configuration's", () => {
  const config = {
    cniVersion: "1.0.0",
    name: "n",
    plugins: [{ type: "a", args: { cni: { keep: 1, change: 1 }, other: 2 } }, { type: "b" }],
  };
  expect(withCniArgs(config, { change: 3 }).plugins).toEqual([
    { type: "a", args: { cni: { keep: 1, change: 3 }, other: 2 } },
    { type: "b", args: { cni: { change: 3 } } },
  ]);
});

test("a list has a capability when one of its plugins declares it", () => {
  const config = {
    cniVersion: "1.0.0",
    name: "n",
    plugins: [{ type: "a" }, { type: "b", capabilities: { mac: true, ips: false } }],
  };
  expect(hasCapability(config, "mac")).toBe(true);
  expect(hasCapability(config, "ips")).toBe(false);
});

describe("the limits of a configuration", () => {
  function nested(levels: number): unknown {
    return Array.from({ length: levels }).reduce<unknown>((inner) => ({ inner }), 1);
  }

  const plugins = (count: number): object => ({
    plugins: Array.from({ length: count }, () => ({ type: "a" })),
  });

  test.each([
    {
      name: "plugins",
      allowed: plugins(16),
      refused: plugins(17),
      want: "spec.config.plugins list exceeds the 16 element limit in length",
    },
    {
      name: "depth",
      allowed: { type: "a", x: nested(15) },
      refused: { type: "a", x: nested(16) },
      want: "spec.config has more than 16 levels of lists and objects",
    },
    {
      name: "length",
      allowed: { type: "a", x: "x".repeat(65_536 - '{"type":"a","x":""}'.length) },
      refused: { type: "a", x: "x".repeat(65_537 - '{"type":"a","x":""}'.length) },
      want: "spec.config exceeds the limit of 65536 characters",
    },
  ])("$name", ({ allowed, refused, want }) => {
    expect(parse(allowed)).toMatchObject({ ok: true });
    const result = parse(refused);
    expect(result).toMatchObject({ ok: false, isBeyondLimit: true });
    const causes = result.ok ? [] : result.causes;
    expect(causes.map(({ field, message }) => `${field} ${message}`)).toEqual([want]);
  });

  test("count before everything else that is wrong", () => {
    const result = parse({ ...plugins(17), cniVersion: "none", name: "/" });
    expect(result.ok ? [] : result.causes).toHaveLength(1);
  });

  test("hold for a text of brackets", () => {
    expect(parseNetworkConfig("[".repeat(65_536), "net1")).toMatchObject({ ok: false });
    expect(parseNetworkConfig("[".repeat(3_000_000), "net1")).toMatchObject({
      isBeyondLimit: true,
    });
  });
});
