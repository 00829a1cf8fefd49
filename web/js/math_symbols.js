// TeX's names of signs and what they look like; tables for math.js.

export const letters = {
  alpha: "α", beta: "β", gamma: "γ", delta: "δ", epsilon: "ϵ", varepsilon: "ε", zeta: "ζ", eta: "η", theta: "θ",
  vartheta: "ϑ", iota: "ι", kappa: "κ", lambda: "λ", mu: "μ", nu: "ν", xi: "ξ", omicron: "ο", pi: "π", rho: "ρ",
  varrho: "ϱ", sigma: "σ", varsigma: "ς", tau: "τ", upsilon: "υ", phi: "ϕ", varphi: "φ", chi: "χ", psi: "ψ",
  omega: "ω", Gamma: "Γ", Delta: "Δ", Theta: "Θ", Lambda: "Λ", Xi: "Ξ", Pi: "Π", Sigma: "Σ", Upsilon: "Υ",
  Phi: "Φ", Psi: "Ψ", Omega: "Ω", infty: "∞", partial: "∂", nabla: "∇", hbar: "ℏ", ell: "ℓ", emptyset: "∅",
  varnothing: "∅", aleph: "ℵ", Re: "ℜ", Im: "ℑ", imath: "ı", jmath: "ȷ", ldots: "…", dots: "…", cdots: "⋯",
  vdots: "⋮", ddots: "⋱", degree: "°", prime: "′", square: "□", checkmark: "✓",
};

export const operators = {
  sum: ["∑", "limits"], prod: ["∏", "limits"], coprod: ["∐", "limits"], bigcup: ["⋃", "limits"],
  bigcap: ["⋂", "limits"], bigoplus: ["⨁", "limits"], bigotimes: ["⨂", "limits"], int: ["∫"], iint: ["∬"],
  iiint: ["∭"], oint: ["∮"], times: ["×"], cdot: ["⋅"], div: ["÷"], pm: ["±"], mp: ["∓"], ast: ["∗"],
  circ: ["∘"], bullet: ["∙"], oplus: ["⊕"], otimes: ["⊗"], odot: ["⊙"], wedge: ["∧"], vee: ["∨"], land: ["∧"],
  lor: ["∨"], neg: ["¬"], lnot: ["¬"], cup: ["∪"], cap: ["∩"], setminus: ["∖"], le: ["≤"], leq: ["≤"],
  ge: ["≥"], geq: ["≥"], ne: ["≠"], neq: ["≠"], ll: ["≪"], gg: ["≫"], approx: ["≈"], sim: ["∼"], simeq: ["≃"],
  cong: ["≅"], equiv: ["≡"], propto: ["∝"], in: ["∈"], notin: ["∉"], ni: ["∋"], subset: ["⊂"], subseteq: ["⊆"],
  supset: ["⊃"], supseteq: ["⊇"], forall: ["∀"], exists: ["∃"], nexists: ["∄"], to: ["→"], rightarrow: ["→"],
  leftarrow: ["←"], leftrightarrow: ["↔"], Rightarrow: ["⇒"], Leftarrow: ["⇐"], Leftrightarrow: ["⇔"],
  implies: ["⟹"], iff: ["⟺"], mapsto: ["↦"], longrightarrow: ["⟶"], uparrow: ["↑"], downarrow: ["↓"],
  mid: ["∣"], nmid: ["∤"], parallel: ["∥"], perp: ["⊥"], angle: ["∠"], therefore: ["∴"], because: ["∵"],
  langle: ["⟨"], rangle: ["⟩"], lfloor: ["⌊"], rfloor: ["⌋"], lceil: ["⌈"], rceil: ["⌉"], vert: ["|"],
  Vert: ["‖"], "|": ["‖"], "{": ["{"], "}": ["}"], "%": ["%"], "#": ["#"], "&": ["&"], $: ["$"], _: ["_"],
  backslash: ["\\"], colon: [":"], star: ["⋆"], dagger: ["†"],
};

export const functionNames = new Set(["sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh",
  "cosh", "tanh", "exp", "log", "ln", "lg", "det", "dim", "ker", "deg", "gcd", "lcm", "lim", "liminf", "limsup",
  "max", "min", "sup", "inf", "argmax", "argmin", "Pr", "mod", "bmod"]);

export const accents = {
  hat: ["^", "mover"], widehat: ["^", "mover"], bar: ["‾", "mover"], overline: ["‾", "mover"], vec: ["→", "mover"],
  dot: ["˙", "mover"], ddot: ["¨", "mover"], tilde: ["~", "mover"], widetilde: ["~", "mover"],
  overbrace: ["⏞", "mover"], underbrace: ["⏟", "munder"], underline: ["_", "munder"],
};

// A letter in the alphabet that begins at `capital` and `small`; letters that Unicode had before are exceptions.
function alphabet(capital, small, exceptions = {}) {
  return (letter) => {
    if (Object.hasOwn(exceptions, letter)) return exceptions[letter];
    if (/[A-Z]/.test(letter)) return String.fromCodePoint(capital + letter.charCodeAt(0) - 65);
    if (/[a-z]/.test(letter)) return String.fromCodePoint(small + letter.charCodeAt(0) - 97);
    return letter;
  };
}

const bold = alphabet(0x1d400, 0x1d41a);
const script = alphabet(0x1d49c, 0x1d4b6, {
  B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ",
});

export const variants = {
  mathbf: bold, boldsymbol: bold, bm: bold, mathcal: script, mathscr: script,
  mathbb: alphabet(0x1d538, 0x1d552, { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" }),
  mathfrak: alphabet(0x1d504, 0x1d51e, { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" }),
  mathrm: (letter) => letter, mathsf: (letter) => letter, mathit: (letter) => letter, mathtt: (letter) => letter,
};
