"""Rewrites the checks of a Python source, so that it holds all mutants of them at once: see mutants.py. The syntax tree is rewritten; comments are lost."""
import ast

ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def refuses(statement):
    """Whether it raises something new, or looks at the status of a call."""
    if isinstance(statement, ast.Raise):
        return statement.exc is not None
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and isinstance(statement.value.func, ast.Attribute) and statement.value.func.attr == "check"


def copy(tree):
    return ast.parse(ast.unparse(tree), mode="eval").body


def stepped(condition, which, at, step):
    """The condition whose comparison number `which` has a right side that is one more or less."""
    made = copy(condition)
    compare = [node for node in ast.walk(made) if isinstance(node, ast.Compare)][which]
    compare.comparators[at] = ast.BinOp(compare.comparators[at], step(), ast.Constant(1))
    return made


def weaker(condition):
    """What a condition of a refusal may become: (what was done, the condition)."""
    yield "never", ast.Constant(False)
    inner = condition.operand if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not) else condition
    if isinstance(inner, ast.BoolOp):
        for i, part in enumerate(inner.values):
            rest = [copy(other) for j, other in enumerate(inner.values) if j != i]
            left = rest[0] if len(rest) == 1 else ast.BoolOp(inner.op, rest)
            yield f"without `{ast.unparse(part)}`", left if inner is condition else ast.UnaryOp(ast.Not(), left)
    for which, compare in enumerate(node for node in ast.walk(condition) if isinstance(node, ast.Compare)):
        for at, op in enumerate(compare.ops):
            for step, sign in ((ast.Sub, "-"), (ast.Add, "+")) if isinstance(op, ORDERS) else ():
                yield f"`{ast.unparse(compare)}` with {ast.unparse(compare.comparators[at])} {sign} 1", stepped(condition, which, at, step)


class rewriting(ast.NodeTransformer):
    def __init__(self, name, first):
        self.name, self.next, self.mutants = name, first, []

    def mutant(self, node, what, was):
        number = self.next
        self.next += 1
        self.mutants.append({"number": number, "file": self.name, "line": node.lineno, "what": what, "of": " ".join(ast.unparse(was).split())[:160]})
        return ast.Call(ast.Attribute(ast.Name("_mutants", ast.Load()), "lives", ast.Load()), [ast.Constant(number)], [])

    def visit_If(self, node):
        if any(map(refuses, node.body)):
            condition = node.test
            for what, other in list(weaker(condition)):
                node.test = ast.IfExp(self.mutant(node, what, condition), other, node.test)
            node.body = [part if refuses(part) else self.visit(part) for part in node.body]
        else:
            node.body = [self.visit(part) for part in node.body]
        node.orelse = [self.visit(part) for part in node.orelse]
        return node

    def visit_Raise(self, node):
        """One that stands alone."""
        if not refuses(node):
            return node
        other = ast.Raise(ast.Attribute(ast.Name("_mutants", ast.Load()), "Other", ast.Load()), None)
        return [ast.If(self.mutant(node, "another exception", node), [other], []), node]

    def visit_Expr(self, node):
        return ast.If(ast.UnaryOp(ast.Not(), self.mutant(node, "not checked", node)), [node], []) if refuses(node) else self.generic_visit(node)

    def run(self, text):
        tree = self.visit(ast.parse(text))
        if self.mutants:
            after = next(i for i, part in enumerate(tree.body) if not (isinstance(part, ast.ImportFrom) and part.module == "__future__" or isinstance(part, ast.Expr)))
            tree.body.insert(after, ast.ImportFrom(None, [ast.alias("_mutants")], 1))
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n" if self.mutants else text


def rewrite(name, text, first):
    """The text with all its mutants, and what they are."""
    it = rewriting(name, first)
    return it.run(text), it.mutants
