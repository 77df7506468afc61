"""Attributes that CrossHair's proxies have and the values that they stand for do not.

Code that reads one can tell a symbolic run from a concrete one. Then it can behave well on every path that is explored
and badly in a plain call.
"""

PROXY_ATTRIBUTES = frozenset(
    """
    _a _arr _b _ch_codepoints _ch_create_from_literal _ch_decision_triggers _ch_intersect_bounds _ch_is_stripped
    _ch_make _ch_maximum _ch_minimum _ch_operand_points _ch_search_operand_points _ch_select_first _ch_smt_sort
    _ch_strip_targets _ch_swap_ascii_case _chars_in_maskfn _check_finite_convert_to _check_nans _cmp _cmp_op
    _codepoints _coerce_to_smt_sort _compare_check_nans _contents _discovered_newlines _divide _exp
    _fill_logical _find _first _fix _fix_nan _force_into_codepoints _from_iterable _has_room _inner _int
    _internal _is_consistent _is_operand_type _is_special _is_subclass_of_ _is_superclass_of_ _iseven
    _isinfinity _isinteger _islogical _isnan _item _items _iter_cache _iter_checker _len _len_int
    _lexicographic_compare _ln_exp_bound _log10_exp_bound _maxlen _newline_mode _op _pick_rounding_function _pos
    _power_exact _power_modulo _pytype _realization _realize _realized _realized_inner _replace_newlines
    _rescale _round _round_05up _round_ceiling _round_down _round_floor _round_half_down _round_half_even
    _round_half_up _round_up _rsplit_whitespace_default _second _set_op _sign _sliced _smt_for_unification
    _smt_promote_literal _snapshots _spawn _split_whitespace_default _symbolic_repr _title_one_char _unary_op
    ch_item_type ch_key_type ch_val_type check_unique_and_create data empty inner int item_smt_sort key_pytype
    python_type pytype_cap seq sign slice smt_key_sort smt_val_sort snapshot val_accessor val_constructor
    val_missing_checker val_missing_constructor val_pytype var
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)
"""The attributes of proxies in CrossHair 0.0.113. A test compares them with the installed version."""
