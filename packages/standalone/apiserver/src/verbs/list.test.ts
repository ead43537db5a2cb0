// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { aConfigMap, aPod, widgetDefinition } from "../testing/objects.ts";
import { type Answer, type TestServer, startTestServer } from "../testing/test-server.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const ALL = "/api/v1/configmaps";

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
});

afterEach(async () => {
  await server.close();
});

/** ConfigMaps `a` to `e`; `a` and `c` have the label `odd`. */
async function putFive(): Promise<void> {
  for (const [index, name] of ["a", "b", "c", "d", "e"].entries()) {
    const labels = index % 2 === 0 && index < 4 ? { labels: { odd: "yes" } } : {};
    await server.put("configmaps", aConfigMap({ name, ...labels }));
  }
}

function namesOf({ body }: Answer): readonly string[] {
  return body.items.map(({ metadata }) => metadata.name);
}

describe("scope", () => {
  beforeEach(async () => {
    await server.put("configmaps", aConfigMap({ name: "b" }), aConfigMap({ name: "a" }));
    await server.put("configmaps", aConfigMap({ name: "z", namespace: "other" }));
    await server.put("configmaps", aConfigMap({ name: "a", namespace: "other" }));
  });

  test.each([
    { name: "one namespace, sorted", path: MAPS, want: ["a", "b"] },
    { name: "all namespaces", path: ALL, want: ["a", "b", "a", "z"] },
    {
      name: "a namespace that does not exist",
      path: "/api/v1/namespaces/none/configmaps",
      want: [],
    },
    { name: "cluster-scoped objects", path: "/api/v1/namespaces", want: ["default", "other"] },
    { name: "an object by name", path: `${MAPS}?fieldSelector=metadata.name%3Db`, want: ["b"] },
    {
      name: "an object by name in all namespaces",
      path: `${ALL}?fieldSelector=metadata.name%3Da`,
      want: ["a", "a"],
    },
    {
      name: "a namespace as a field",
      path: `${ALL}?fieldSelector=metadata.namespace%3Dother`,
      want: ["a", "z"],
    },
    {
      name: "a name that does not match",
      path: `${MAPS}?fieldSelector=metadata.name!%3Db`,
      want: ["a"],
    },
  ])("$name", async ({ path, want }) => {
    const answer = await server.send("GET", path);
    expect([answer.code, namesOf(answer)]).toEqual([200, want]);
  });

  test("has the version of the store", async () => {
    const { body } = await server.send("GET", MAPS);
    expect(body).toMatchObject({
      kind: "ConfigMapList",
      apiVersion: "v1",
      metadata: { resourceVersion: String(server.deps.store.revision()) },
    });
    expect(Object.keys(body.metadata)).toEqual(["resourceVersion"]);
  });
});

describe("selectors", () => {
  test.each([
    { name: "a label", query: "labelSelector=odd", want: ["a", "c"] },
    { name: "a missing label", query: "labelSelector=!odd", want: ["b", "d", "e"] },
    {
      name: "labels and fields together",
      query: "labelSelector=odd%3Dyes&fieldSelector=metadata.name!%3Da",
      want: ["c"],
    },
    {
      name: "a name whose labels do not match",
      query: "labelSelector=odd&fieldSelector=metadata.name%3Db",
      want: [],
    },
    {
      name: "empty selectors",
      query: "labelSelector=&fieldSelector=",
      want: ["a", "b", "c", "d", "e"],
    },
  ])("$name", async ({ query, want }) => {
    await putFive();
    expect(namesOf(await server.send("GET", `${MAPS}?${query}`))).toEqual(want);
  });

  test("fields of the kind", async () => {
    await server.put("pods", aPod("p"), aPod("q", { spec: { nodeName: "n2" } }));
    const path = "/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3Dn2";
    expect(namesOf(await server.send("GET", path))).toEqual(["q"]);
  });

  test("fields of custom resources match the requested version", async () => {
    const definition = widgetDefinition();
    const { versions } = definition["spec"] as { versions: object[] };
    for (const version of versions) {
      Object.assign(version, { selectableFields: [{ jsonPath: ".spec.color" }] });
    }
    await server.put("test.io/widgets", {
      apiVersion: "test.io/v1",
      kind: "Widget",
      metadata: { name: "w", namespace: "default" },
      spec: {},
    });
    await server.put("apiextensions.k8s.io/customresourcedefinitions", definition);
    const path = "/apis/test.io/v2/namespaces/default/widgets?fieldSelector=spec.color%3Dred";
    const answer = await server.send("GET", path);
    expect(answer.body.items).toMatchObject([{ apiVersion: "test.io/v2", spec: { color: "red" } }]);
  });

  test("a long list yields to other requests between its objects", async () => {
    await putFive();
    const waited: string[] = [];
    const { clock, fairQueue } = server.deps;
    const take = fairQueue.waitForTurn.bind(fairQueue);
    fairQueue.waitForTurn = (user) => {
      waited.push(user.name);
      return take(user);
    };
    let now = 0;
    clock.monotonicMs = () => {
      now += 6;
      return now;
    };
    expect(namesOf(await server.send("GET", `${MAPS}?labelSelector=odd`))).toEqual(["a", "c"]);
    expect(waited.length).toBeGreaterThan(1);
    expect(new Set(waited)).toEqual(new Set(["admin"]));
  });
});

describe("pages", () => {
  async function pagesOf(query: string): Promise<readonly Answer[]> {
    const pages: Answer[] = [];
    let token: string | undefined = "";
    while (token !== undefined) {
      const next: string = token === "" ? "" : `&continue=${token}`;
      const page = await server.send("GET", `${MAPS}?${query}${next}`);
      pages.push(page);
      token = page.body.metadata.continue;
    }
    return pages;
  }

  test.each([
    { query: "limit=2", want: [["a", "b"], ["c", "d"], ["e"]], remaining: [3, 1, undefined] },
    { query: "limit=5", want: [["a", "b", "c", "d", "e"]], remaining: [undefined] },
    { query: "limit=9", want: [["a", "b", "c", "d", "e"]], remaining: [undefined] },
    { query: "limit=0", want: [["a", "b", "c", "d", "e"]], remaining: [undefined] },
    { query: "limit=", want: [["a", "b", "c", "d", "e"]], remaining: [undefined] },
    { query: "limit=1&labelSelector=odd", want: [["a"], ["c"]], remaining: [undefined, undefined] },
    { query: "limit=2&labelSelector=odd", want: [["a", "c"]], remaining: [undefined] },
  ])("$query", async ({ query, want, remaining }) => {
    await putFive();
    const pages = await pagesOf(query);
    expect(pages.map(namesOf)).toEqual(want);
    expect(pages.map(({ body }) => body.metadata.remainingItemCount)).toEqual(remaining);
    expect(new Set(pages.map(({ body }) => body.metadata.resourceVersion)).size).toBe(1);
  });

  test("show one snapshot without later changes", async () => {
    await putFive();
    const first = await server.send("GET", `${MAPS}?limit=2`);
    await server.send("DELETE", `${MAPS}/d`);
    await server.put("configmaps", aConfigMap({ name: "cc" }));
    await server.put("configmaps", aConfigMap({ name: "e" }, { k: "new" }));
    const token = first.body.metadata.continue ?? "";
    const rest = await server.send("GET", `${MAPS}?continue=${token}`);
    expect([namesOf(rest), rest.body.items.at(-1)?.["data"]]).toEqual([
      ["c", "d", "e"],
      { k: "1" },
    ]);
    expect(rest.body.metadata.resourceVersion).toBe(first.body.metadata.resourceVersion);
  });

  test("continue after a position whose object is deleted", async () => {
    await putFive();
    const first = await server.send("GET", `${MAPS}?limit=2`);
    const token = first.body.metadata.continue ?? "";
    const all = await server.send("GET", `${MAPS}?continue=${token}&resourceVersion=0&limit=2`);
    expect(namesOf(all)).toEqual(["c", "d"]);
  });

  test("are not used for a list from version 0", async () => {
    await putFive();
    const answer = await server.send("GET", `${MAPS}?limit=2&resourceVersion=0`);
    expect([namesOf(answer).length, answer.body.metadata.continue]).toEqual([5, undefined]);
  });

  test("are empty after the last object", async () => {
    await putFive();
    const after = { revision: -1, after: "/configmaps/default/zzz" };
    const token = Buffer.from(JSON.stringify(after)).toString("base64url");
    const answer = await server.send("GET", `${MAPS}?limit=2&continue=${token}`);
    expect([answer.code, namesOf(answer)]).toEqual([200, []]);
  });
});

describe("versions", () => {
  test.each([
    {
      name: "an exact version returns the earlier state",
      query: (at: string) => `resourceVersion=${at}&resourceVersionMatch=Exact`,
      want: ["m"],
    },
    {
      name: "a page at an exact version returns the earlier state",
      query: (at: string) => `resourceVersion=${at}&limit=5`,
      want: ["m"],
    },
    {
      name: "a list without a limit is at least as recent",
      query: (at: string) => `resourceVersion=${at}`,
      want: ["m", "n"],
    },
    {
      name: "a page with NotOlderThan is current",
      query: (at: string) => `resourceVersion=${at}&resourceVersionMatch=NotOlderThan&limit=5`,
      want: ["m", "n"],
    },
    { name: "version 0 is of now", query: () => "resourceVersion=0&limit=5", want: ["m", "n"] },
  ])("$name", async ({ query, want }) => {
    await server.put("configmaps", aConfigMap());
    const at = String(server.deps.store.revision());
    await server.put("configmaps", aConfigMap({ name: "n" }));
    const answer = await server.send("GET", `${MAPS}?${query(at)}`);
    expect(namesOf(answer)).toEqual(want);
    const now = String(server.deps.store.revision());
    expect(answer.body.metadata.resourceVersion).toBe(want.length === 1 ? at : now);
  });
});

describe("rejections", () => {
  const token = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const FOREIGN = "continue key is not valid: the token was not issued by this server";

  test.each([
    { name: "a token that is no JSON", query: "continue=abc", code: 400, message: FOREIGN },
    {
      name: "a token without a revision",
      query: `continue=${token({ after: "a" })}`,
      code: 400,
      message: FOREIGN,
    },
    {
      name: "a token without a place",
      query: `continue=${token({ revision: 1 })}`,
      code: 400,
      message: FOREIGN,
    },
    {
      name: "a continue token that is not an object",
      query: `continue=${token(null)}`,
      code: 400,
      message: FOREIGN,
    },
    {
      name: "a token and a version",
      query: `continue=${token({ revision: 2, after: "" })}&resourceVersion=2`,
      code: 400,
      message: "specifying resource version is not allowed when using continue",
    },
    {
      name: "a limit that is no number",
      query: "limit=few",
      code: 400,
      message: 'strconv.ParseInt: parsing "few": invalid syntax',
    },
    {
      name: "a version that is no number",
      query: "resourceVersion=new",
      code: 400,
      message: 'Invalid value: "new": strconv.ParseUint: parsing "new": invalid syntax',
    },
    {
      name: "a future version",
      query: "resourceVersion=99999",
      code: 504,
      message: expect.stringContaining("Too large resource version: 99999") as string,
    },
    {
      name: "an unsupported field selector",
      query: "fieldSelector=data.k%3D1",
      code: 400,
      message: expect.stringContaining('"data.k" is not a known field selector') as string,
    },
    {
      name: "an invalid label selector",
      query: "labelSelector=a+in+(",
      code: 400,
      message: expect.any(String) as string,
    },
  ])("$name: $code", async ({ query, code, message }) => {
    const answer = await server.send("GET", `${MAPS}?${query}`);
    expect([answer.code, answer.body.message]).toEqual([code, message]);
  });

  test.each([
    {
      query: "resourceVersionMatch=Exact",
      causes: ["Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"],
    },
    {
      query: "resourceVersionMatch=Soon&resourceVersion=1",
      causes: ['Unsupported value: "Soon": supported values: "Exact", "NotOlderThan", ""'],
    },
    {
      query: "resourceVersionMatch=Exact&resourceVersion=0",
      causes: ['Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'],
    },
    {
      query: `resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=${token({ revision: 1, after: "" })}`,
      causes: ["Forbidden: resourceVersionMatch is forbidden when continue is provided"],
    },
  ])("$query: 422", async ({ query, causes }) => {
    const { code, body } = await server.send("GET", `${MAPS}?${query}`);
    expect([code, body.details.kind, body.details.group]).toEqual([
      422,
      "ListOptions",
      "meta.k8s.io",
    ]);
    expect(body.details.causes?.map(({ message }) => message)).toEqual(causes);
    expect(body.details.causes?.every(({ field }) => field === "resourceVersionMatch")).toBe(true);
  });

  test("accepts an exact match at revision 0", async () => {
    const path = `${MAPS}?resourceVersionMatch=NotOlderThan&resourceVersion=0`;
    expect((await server.send("GET", path)).code).toBe(200);
  });
});

describe("a compacted revision", () => {
  beforeEach(async () => {
    await putFive();
    server.deps.store.listAt = () => undefined;
  });

  test("returns 410 for a list", async () => {
    const answer = await server.send("GET", `${MAPS}?resourceVersion=2&limit=1`);
    expect([answer.code, answer.body.reason, answer.body.message, answer.body.metadata]).toEqual([
      410,
      "Expired",
      "The resourceVersion for the provided list is too old.",
      {},
    ]);
  });

  test("returns 410 for the next page, with a token that continues at the current state", async () => {
    const first = await server.send("GET", `${MAPS}?limit=2`);
    await server.put("configmaps", aConfigMap({ name: "cc" }));
    const old = await server.send(
      "GET",
      `${MAPS}?limit=2&continue=${first.body.metadata.continue ?? ""}`,
    );
    expect([old.code, old.body.message]).toEqual([
      410,
      expect.stringContaining("The provided continue parameter is too old"),
    ]);
    const rest = await server.send("GET", `${MAPS}?continue=${old.body.metadata.continue ?? ""}`);
    expect(namesOf(rest)).toEqual(["c", "cc", "d", "e"]);
  });
});

test.each([
  {
    name: "a state that is compacted while it is read: 410",
    error: new RangeError("compacted"),
    want: 410,
  },
  { name: "another error is thrown on", error: new TypeError("broken"), want: "broken" },
])("$name", async ({ error, want }) => {
  await putFive();
  const { store } = server.deps;
  const listAt = store.listAt.bind(store);
  store.listAt = (scope, revision) => {
    const [first] = listAt(scope, revision) ?? [];
    if (first === undefined) return undefined;
    first.loadText = () => {
      throw error;
    };
    return [first];
  };
  const path = `${MAPS}?resourceVersion=${String(store.revision() - 1)}&resourceVersionMatch=Exact`;
  const answer = await server.send("GET", path).then(
    ({ code }) => code,
    (thrown: unknown) => (thrown as Error).message,
  );
  expect(answer).toBe(want);
});
