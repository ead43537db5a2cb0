// SPDX-License-Identifier: Apache-2.0
// Lays a domain that somebody else has written over the one that he was given: what he adds and changes is taken and told,
// what he leaves out stays as it was.
import type { XmlElement } from "./element.ts";

/** One thing that differs. */
export interface DomainChange {
  /** `missing`: it was left out, and stays. */
  readonly kind: "added" | "changed" | "missing";
  /** Of names, from the root on; an attribute begins with `@`. */
  readonly path: readonly string[];
  /** The path in words: what is there several times is told apart by what it is known by. */
  readonly where: string;
  /** What it says now, and said before; empty for an element. */
  readonly to: string;
  readonly from: string;
  /** What was added or left out, where it is an element. */
  readonly element?: XmlElement;
  /** The element as it was given that the change is in, nearest first. */
  readonly within: readonly XmlElement[];
}

/** The domain as it is to be, and what is new in it. */
interface LaidOver {
  readonly root: XmlElement;
  readonly changes: readonly DomainChange[];
}

function childOf({ children }: XmlElement, name: string): XmlElement | undefined {
  return children.find((child) => child.name === name);
}

function attributeOf(element: XmlElement | undefined, name: string): string | undefined {
  return element?.attributes.get(name);
}

/** How an alias is found that its writer knows without libvirt's prefix for those of users. Source: libvirt formatdomain "alias". */
export function aliasOfElement(element: XmlElement): string | undefined {
  return attributeOf(childOf(element, "alias"), "name");
}

/** What an element is known by among others of its name; undefined: its place alone. */
function identityOf(element: XmlElement): string | undefined {
  const { attributes } = element;
  const alias = aliasOfElement(element);
  if (alias !== undefined) return alias;
  if (element.name === "controller") {
    return [attributes.get("type"), attributes.get("index")].join(" ");
  }
  const target = childOf(element, "target");
  return (
    attributeOf(target, "dev") ??
    attributeOf(childOf(element, "mac"), "address")?.toLowerCase() ??
    attributeOf(target, "name") ??
    attributes.get("name") ??
    attributes.get("alias")
  );
}

/** One level of the way to a change. */
interface Way {
  readonly path: readonly string[];
  readonly where: string;
  readonly within: readonly XmlElement[];
}

function below(way: Way, element: XmlElement): Way {
  const identity = identityOf(element);
  const { name } = element;
  return {
    path: [...way.path, name],
    where: `${way.where}/${name}${identity === undefined ? "" : `[${identity}]`}`,
    within: [element, ...way.within],
  };
}

/** A value of an element as it was given, or of an attribute. */
function valueChange(
  way: Way,
  name: string | undefined,
  { from, to }: { readonly from: string | undefined; readonly to: string },
): readonly DomainChange[] {
  if (from === to) return [];
  const place =
    name === undefined
      ? way
      : { ...way, path: [...way.path, `@${name}`], where: `${way.where}/@${name}` };
  const kind = from === undefined ? "added" : "changed";
  return [{ kind, ...place, to, from: from ?? "" }];
}

function layAttributes(
  given: XmlElement,
  answered: XmlElement,
  way: Way,
): { readonly attributes: XmlElement["attributes"]; readonly changes: readonly DomainChange[] } {
  const attributes = new Map([...given.attributes, ...answered.attributes]);
  const changes = [...answered.attributes].flatMap(([name, to]) =>
    valueChange(way, name, { from: given.attributes.get(name), to }),
  );
  return { attributes, changes };
}

/** Takes from `left` the element that is `given`, as it was answered. */
function takeMatch(given: XmlElement, left: XmlElement[]): XmlElement | undefined {
  const identity = identityOf(given);
  const index = left.findIndex(
    (one) => one.name === given.name && (identity === undefined || identityOf(one) === identity),
  );
  return index < 0 ? undefined : left.splice(index, 1)[0];
}

function layChildren(
  given: XmlElement,
  answered: XmlElement,
  way: Way,
): { readonly children: readonly XmlElement[]; readonly changes: readonly DomainChange[] } {
  const left = [...answered.children];
  const changes: DomainChange[] = [];
  const kept = given.children.map((child) => {
    const match = takeMatch(child, left);
    if (match === undefined) {
      changes.push({ kind: "missing", ...below(way, child), to: "", from: "", element: child });
      return child;
    }
    const laid = lay(child, match, below(way, child));
    changes.push(...laid.changes);
    return laid.root;
  });
  for (const element of left) {
    const { path, where } = below(way, element);
    changes.push({ kind: "added", path, where, within: way.within, to: "", from: "", element });
  }
  return { children: [...kept, ...left], changes };
}

function lay(given: XmlElement, answered: XmlElement, way: Way): LaidOver {
  const { attributes, changes: ofAttributes } = layAttributes(given, answered, way);
  const { children, changes: ofChildren } = layChildren(given, answered, way);
  const text = answered.text === "" ? given.text : answered.text;
  const changes = [
    ...ofAttributes,
    ...valueChange(way, undefined, { from: given.text, to: text }),
    ...ofChildren,
  ];
  return { root: { name: given.name, attributes, children, text }, changes };
}

/** The answer laid over what was given, whose names are the same. */
export function layOver(given: XmlElement, answered: XmlElement): LaidOver {
  return lay(given, answered, below({ path: [], where: "", within: [] }, given));
}
